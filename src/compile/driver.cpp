#include "compile/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "base/hash.h"
#include "base/wire.h"
#include "compile/contradictions.h"
#include "compile/generic_share.h"
#include "compile/ir/work_budget.h"
#include "compile/lower/lower.h"
#include "compile/output_path.h"
#include "compile/proof.h"
#include "compile/proof_scope.h"
#include "compile/quantize/packed_bytes.h"
#include "compile/refusal.h"
#include "compile/report.h"
#include "compile/tensor_form.h"
#include "compile/tune/step_time.h"
#include "compile/tune/tune.h"
#include "plan/reader.h"
#include "plan/writer.h"

namespace kvern::compile {
namespace {

std::function<void(uint64_t, uint64_t)> phase(const ProgressFn& progress, const char* name) {
  if (!progress) return {};
  return [&progress, name](uint64_t done, uint64_t total) { progress({name, done, total}); };
}

// What constants of an ONNX file may cost: a graph of a few bytes can ask for any amount.
constexpr uint64_t kMostConstantBytes = uint64_t{4} << 30;
constexpr double kMostConstantProducts = 2e11;  // some 20 s on two cores

std::optional<Conversion> convert(import::ImportedModel& model, const BuildRequest& request,
                                  TensorFormOptions options) {
  Progress last{"converting"};
  options.progress = [&](uint64_t done, uint64_t total) {
    last.done_bytes = done;
    last.total_bytes = total;
    if (request.progress) request.progress(last);
  };
  const ir::WorkBudget budget({kMostConstantBytes, kMostConstantProducts, [&] {
                                 if (request.progress) request.progress(last);
                               }});
  try {
    return convert_tensor_form(model, options);
  } catch (const Error& error) {  // the file asks for it: no machine is too small
    if (error.code() != Code::kOutOfMemory) throw;
    throw Error(Code::kUnsupported,
                fmt::format("{}; export with less computed from constants", error.what()));
  }
}

plan::KvLayout layout_of(const std::vector<import::SlotInfo>& slots, const BuildRequest& request) {
  std::vector<plan::KvSlot> out;
  for (const import::SlotInfo& slot : slots) {
    plan::KvSlot made;
    made.layers = slot.layers;
    made.kv_heads = slot.kv_heads;
    made.dim_k = slot.dim_k;
    made.dim_v = slot.dim_v;
    made.k_format.storage = made.v_format.storage = request.kv_storage;
    made.retention = slot.window_tokens > 0 ? plan::Retention::kWindow : plan::Retention::kAll;
    made.window_tokens = slot.window_tokens;
    made.position_scheme = slot.position_scheme;
    out.push_back(std::move(made));
  }
  return plan::KvLayout::make(std::move(out), request.page_tokens);
}

plan::Profile profile_of(const import::ImportedModel& model, const BuildRequest& request) {
  const int64_t trained = model.max_context_length;
  const int64_t wanted = request.max_context_length > 0 ? request.max_context_length : trained;
  if (wanted > trained) {
    throw Error(Code::kInvalidArgument,
                fmt::format("--max-context-length {}: '{}' was trained for {} tokens; give at most "
                            "that many",
                            wanted, model.name, trained));
  }
  plan::Profile profile;
  profile.context_length = {1, std::min<int64_t>(wanted, 1024), wanted};
  profile.sequences = {1, 1, request.max_sequences};
  profile.tokens = {1, 1, std::max<int64_t>(request.max_tokens_per_step, request.max_sequences)};
  return profile;
}

// `sources`: files known to be read, besides the model itself.
void check_outputs(const BuildRequest& request, const std::vector<std::string>& sources) {
  const std::string model = request.model_path.starts_with(kSyntheticPrefix)
                                ? request.model_path.substr(kSyntheticPrefix.size())
                                : request.model_path;
  check_output(request.plan_path, OutputKind::kPlan, model, sources);
  if (request.report_path.empty()) return;
  check_output(request.report_path, OutputKind::kReport, model, sources, request.plan_path);
}

plan::Plan describe(const import::ImportedModel& model, const BuildRequest& request) {
  plan::Plan plan;
  plan.family = model.family;
  plan.model_name = model.name;
  plan.source_hash = model.source_hash;
  plan.weight_format = request.weights_name;
  plan.vocabulary_size = model.vocabulary_size;
  plan.num_layers = model.num_layers;
  plan.hidden_size = model.hidden_size;
  plan.num_parameters = model.num_parameters;
  plan.text = model.text;
  plan.generation = {.stop_ids = model.stop_ids,
                     .temperature = model.generation.temperature,
                     .top_p = model.generation.top_p,
                     .top_k = model.generation.top_k,
                     .min_p = model.generation.min_p,
                     .repetition_penalty = model.generation.repetition_penalty};
  plan.profile = profile_of(model, request);
  return plan;
}

// Weights that come from a source have no bytes when sources have none; literals are real.
void mark_synthetic(const import::ImportedModel& model, const std::vector<int>& weight_index,
                    plan::Plan& plan) {
  if (!model.synthetic_seed) return;
  plan.synthetic_seed = *model.synthetic_seed;
  for (size_t i = 0; i < plan.weights.size(); ++i) {
    const auto& nodes = model.graph.weights[static_cast<size_t>(weight_index[i])].recipe.nodes;
    plan.weights[i].synthetic = std::any_of(nodes.begin(), nodes.end(), [](const auto& node) {
      return node.op == ir::RecipeOp::kSource;
    });
  }
}

// What a graph chooses by length, it chooses as at the plan's own.
TensorFormOptions tensor_form_of(const BuildRequest& request) {
  TensorFormOptions out = request.tensor_form;
  if (out.max_context_length == 0) out.max_context_length = request.max_context_length;
  out.allow_unproven = !request.prove;
  return out;
}

// External data lies anywhere in the model's folder, under any name.
std::vector<std::string> source_files(const import::ImportedModel& model,
                                      const BuildRequest& request) {
  std::error_code ignored;
  const std::filesystem::path given(request.model_path);
  const bool is_folder = std::filesystem::is_directory(given, ignored);
  const std::filesystem::path folder = is_folder ? given : given.parent_path();
  std::vector<std::string> out;
  for (const std::string& file : model.graph.files) out.push_back((folder / file).string());
  return out;
}

OnnxFacts onnx_facts(import::ImportedModel& model, const std::optional<Conversion>& conversion,
                     const BuildRequest& request) {
  OnnxFacts facts;
  if (!conversion) return facts;
  facts.form = &conversion->form;
  if (model.config) {
    for (std::string& warning : contradictions(*model.config, conversion->form, model.graph)) {
      model.warnings.push_back(std::move(warning));
    }
  }
  if (!request.prove) {
    facts.proof.notes.emplace_back("asked for by --no-verify");
    return facts;
  }
  ProofOptions options;
  options.conversion = conversion->options;
  options.num_parameters = model.num_parameters;
  if (model.config) options.original_context_length = model.config->original_context_length;
  Progress last{"proving"};
  options.progress = [&](uint64_t done, uint64_t total) {
    last.done_bytes = done;
    last.total_bytes = total;
    if (request.progress) request.progress(last);
  };
  const ir::WorkBudget watched({0, 0, [&] {
                                  if (request.progress) request.progress(last);
                                }});
  facts.proof = prove(*model.tensor, conversion->form, model.graph, model.files, options);
  if (facts.proof.status != "passed") {
    model.warnings.push_back(
        fmt::format("the conversion is not proved: {}", fmt::join(facts.proof.notes, "; ")));
  }
  return facts;
}

// What the generic ops cost: by bytes for the plan, by time for who builds it here.
void measure_generic(const import::ImportedModel& model, const lower::Lowered& lowered,
                     const plan::Plan& plan, OnnxFacts& onnx, std::vector<std::string>& warnings) {
  const int64_t context = plan.profile.context_length.opt;
  onnx.generic = onnx.generic_here = generic_share(lowered, plan.kv_layout, context);
  if (onnx.generic.lines.empty()) return;
  onnx.generic_here = measured_share(
      lowered.program,
      tune::time_decode_step(lowered.program, lowered.weights, plan.kv_layout, context));
  name_nodes(model.graph, onnx.generic);
  name_nodes(model.graph, onnx.generic_here);
  std::string warning = generic_warning(onnx.generic_here);
  if (!warning.empty()) warnings.push_back(std::move(warning));
}

void write_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  const std::string whole = text + "\n";
  file.write(whole.data(), whole.size());
  file.commit();
}

void check_vocabulary(const import::ImportedModel& model, const BuildRequest& request) {
  if (request.vocabulary_size == 0 || request.vocabulary_size == model.vocabulary_size) return;
  throw Error(Code::kInvalidArgument,
              fmt::format("'{}' has a vocabulary of {} and is to be compared with one of {}; give "
                          "the twin of this model",
                          request.model_path, model.vocabulary_size, request.vocabulary_size));
}

// Options that mean something for ONNX files only.
std::vector<std::string> idle_options(const import::ImportedModel& model,
                                      const BuildRequest& request) {
  if (model.tensor != nullptr) return {};
  std::vector<std::string> idle;
  if (!request.prove) idle.emplace_back("--no-verify");
  if (!request.tensor_form.states.empty()) idle.emplace_back("--state");
  if (!request.tensor_form.inputs.empty()) idle.emplace_back("--input");
  if (request.tensor_form.per_token_dynamic_quant) idle.emplace_back("--dynamic-quant");
  if (idle.empty()) return {};
  return {fmt::format("{}: without effect, the model is no ONNX file", fmt::join(idle, ", "))};
}

BuildResult build_plan(const BuildRequest& request, KnownSoFar& known) {
  const auto start = std::chrono::steady_clock::now();
  known.model =
      import::load(request.model_path, {request.seed, phase(request.progress, "reading")});
  import::ImportedModel& model = *known.model;
  TensorFormOptions tensor_form = tensor_form_of(request);
  tensor_form.layers_found = &known.layers;
  const std::optional<Conversion> conversion = convert(model, request, tensor_form);
  check_outputs(request, source_files(model, request));
  check_vocabulary(model, request);
  // Before the passes too: linears are joined where their weights will be stored alike, not where
  // the file happens to keep them alike.
  quantize::apply(model.graph, request.weights);
  const auto pass_reports = passes::run_pipeline(model.graph);
  auto weight_notes = quantize::apply(model.graph, request.weights);
  OnnxFacts onnx = onnx_facts(model, conversion, request);

  plan::Plan plan = describe(model, request);
  plan.kv_layout = layout_of(model.slots, request);
  lower::Lowered lowered = lower::program(model.graph, plan.kv_layout, request.activations);
  tune::pick(lowered.program);
  lower::place_buffers(lowered.program);
  std::vector<std::string> warnings_here = idle_options(model, request);
  if (conversion) measure_generic(model, lowered, plan, onnx, warnings_here);
  if (conversion) {
    onnx.not_compared = not_compared(lowered.program, weight_notes, request.kv_storage);
  }
  plan.program = std::move(lowered.program);
  plan.weights = lowered.weights;
  mark_synthetic(model, lowered.weight_index, plan);
  if (model.synthetic_seed) {  // drawn in their storage: nothing is rounded
    for (quantize::WeightNote& note : weight_notes) note.exact = true;
  }
  plan.graph_text = ir::print(model.graph);
  plan.recipes_text = ir::print_recipes(model.graph);

  plan::WriteHooks hooks;
  hooks.weight = [&](size_t index, std::span<std::byte> to) {
    const auto at = static_cast<size_t>(lowered.weight_index[index]);
    quantize::write_packed(model.graph, model.graph.weights[at], model.files, weight_notes[at], to);
  };
  hooks.progress = phase(request.progress, "weights");
  hooks.final_report = [&] { return write_report(model, pass_reports, weight_notes, onnx); };
  plan.import_report = hooks.final_report();
  uint64_t plan_bytes = 0;
  hooks.check = [&](const std::string& temporary_path) {
    const plan::PlanFile written(temporary_path);
    written.verify_weights(phase(request.progress, "checking"));
    plan_bytes = written.file_bytes();
    if (request.accept) request.accept(temporary_path);
  };
  plan::write_plan(request.plan_path, plan, hooks);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  onnx.of_this_machine = true;
  model.warnings.insert(model.warnings.end(), warnings_here.begin(), warnings_here.end());
  std::string report = hooks.final_report();
  if (!request.report_path.empty()) write_text(request.report_path, report);
  return {plan_bytes, seconds.count(), std::move(report), std::move(model.warnings)};
}

// The reason of a refusal goes where the report was wanted; a report that cannot be written hides
// no reason.
void report_refusal(const BuildRequest& request, const KnownSoFar& known, bool may_write,
                    const Error& error) {
  const std::string report = refusal_report(request.model_path, known, error);
  if (may_write && !request.report_path.empty()) {
    try {
      write_text(request.report_path, report);
    } catch (const Error&) {
    }
  }
  if (request.refused) request.refused(report);
}

}  // namespace

BuildResult build(const BuildRequest& request) {
  KnownSoFar known;
  bool may_write = false;  // the report: its place is checked
  try {
    check_outputs(request, {});
    may_write = true;
    return build_plan(request, known);
  } catch (const Error& error) {
    report_refusal(request, known, may_write, error);
    throw;
  }
}

// Everything that import concluded goes in, not only the tensors: a file whose metadata was mended
// (a stop id, the RoPE base, the chat template) is another model. KVERN_VERSION, because a newer
// compiler may conclude otherwise.
std::string build_key(const BuildRequest& request) {
  import::ImportedModel model =
      import::load(request.model_path, {request.seed, phase(request.progress, "reading")});
  convert(model, request, tensor_form_of(request));
  WireWriter text;
  text::write_text_model(text, model.text);
  const std::string inputs = fmt::format(
      "{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", KVERN_VERSION, plan::kFormatVersion,
      model.source_hash, model.name, hash64(ir::print(model.graph)),
      hash64(std::as_bytes(std::span(text.bytes()))), fmt::join(model.stop_ids, ","),
      model.max_context_length, request.weights_name, static_cast<int>(request.kv_storage),
      request.page_tokens, request.max_context_length, request.max_sequences);
  const import::GenerationDefaults& g = model.generation;
  return hex64(hash64(fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}", inputs, request.max_tokens_per_step,
                                  static_cast<int>(request.activations), g.temperature, g.top_p,
                                  g.top_k, g.min_p, g.repetition_penalty,
                                  model.tensor != nullptr && !request.prove ? "unproved" : "")));
}

}  // namespace kvern::compile
