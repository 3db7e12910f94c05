#include "compile/tensor_form.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvern/error.h"

namespace kvern::compile {
namespace {

constexpr int64_t kDefaultContextLength = 2048;

passes::TokenFormOptions options_of(const import::ImportedModel& model,
                                    const TensorFormOptions& options) {
  passes::TokenFormOptions out;
  out.states = options.states;
  out.inputs = options.inputs;
  out.per_token_dynamic_quant = options.per_token_dynamic_quant;
  out.context_length = options.max_context_length > 0 ? options.max_context_length
                       : model.max_context_length > 0 ? model.max_context_length
                                                      : kDefaultContextLength;
  if (!model.config) return out;
  if (model.config->vocabulary_size > 0) out.config["vocab_size"] = model.config->vocabulary_size;
  if (model.config->sliding_window > 0) {
    out.config["sliding_window"] = model.config->sliding_window;
    out.lengths.push_back(model.config->sliding_window);
  }
  return out;
}

// A table of positions ends somewhere, whatever else the file says.
void limit_to_positions(const passes::TokenForm& form, const TensorFormOptions& options,
                        import::ImportedModel& model) {
  const int64_t rows = form.learned_positions;
  if (rows == 0 || rows >= model.max_context_length) return;
  if (options.max_context_length > rows) {
    throw Error(Code::kInvalidArgument,
                fmt::format("--max-context-length {}: the file's table of positions has {} rows",
                            options.max_context_length, rows));
  }
  model.max_context_length = rows;
}

// A mask that was not seen at some length is not assumed there.
void limit_to_proven(const passes::TokenForm& form, const TensorFormOptions& options,
                     import::ImportedModel& model) {
  int64_t proven = model.max_context_length;
  for (const passes::TokenLayer& layer : form.layers) {
    proven = std::min(proven, layer.proven_length);
  }
  if (proven >= model.max_context_length || options.allow_unproven) return;
  if (options.max_context_length > proven) {
    throw Error(
        Code::kUnsupported,
        fmt::format("--max-context-length {}: the masks of this file can be evaluated up to "
                    "{} tokens only (without a past they are as long as they are wide); "
                    "export with past and present, give at most that length, or trust the "
                    "file with --no-verify",
                    options.max_context_length, proven));
  }
  model.warnings.push_back(
      fmt::format("masks were evaluated up to {} tokens, and the plan takes no "
                  "more (the file says {}); export with past and present for "
                  "longer contexts",
                  proven, model.max_context_length));
  model.max_context_length = proven;
}

// Lengths to try where nobody says one and the file's tables end before the default: a table of
// learned positions says its own.
std::vector<int64_t> shorter_lengths(const passes::TokenForm& form, int64_t than) {
  std::vector<int64_t> out;
  if (form.learned_positions > 0 && form.learned_positions < than) {
    out.push_back(form.learned_positions);
  }
  for (int64_t length = 1024; length >= 16; length /= 2) {
    if (length < than) out.push_back(length);
  }
  return out;
}

// The conversion at the longest length that the file reaches, where none was asked for.
std::optional<passes::TokenForm> convert_shorter(const ir::TensorModel& model,
                                                 passes::TokenFormOptions& options) {
  const int64_t wanted = options.context_length;
  const auto attempt = [&](int64_t length) -> std::optional<passes::TokenForm> {
    options.context_length = length;
    try {
      return passes::to_token_form(model, options);
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  const std::optional<passes::TokenForm> any = attempt(0);
  if (!any) return std::nullopt;
  for (const int64_t length : shorter_lengths(*any, wanted)) {
    if (std::optional<passes::TokenForm> form = attempt(length)) return form;
  }
  return std::nullopt;
}

passes::TokenForm convert_form(const import::ImportedModel& model, const TensorFormOptions& options,
                               passes::TokenFormOptions& found_with) {
  try {
    return passes::to_token_form(*model.tensor, found_with);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    if (error.code() != Code::kInvalidModel || options.max_context_length > 0) throw;
    std::optional<passes::TokenForm> form = convert_shorter(*model.tensor, found_with);
    if (!form) throw;
    return std::move(*form);
  }
}

}  // namespace

std::optional<Conversion> convert_tensor_form(import::ImportedModel& model,
                                              const TensorFormOptions& options) {
  if (model.tensor == nullptr) return std::nullopt;
  passes::TokenFormOptions found_with = options_of(model, options);
  found_with.progress = options.progress;
  found_with.layers_found = options.layers_found;
  const int64_t wanted = found_with.context_length;
  passes::TokenForm form = convert_form(model, options, found_with);
  const bool shorter = found_with.context_length < wanted;
  found_with.progress = {};
  found_with.layers_found = nullptr;
  if (options.layers_found != nullptr) *options.layers_found = form.layers;
  std::vector<std::string> files = std::move(model.graph.files);
  model.graph = std::move(form.graph);
  model.graph.files = std::move(files);
  model.graph.family = model.family;
  model.slots.clear();
  for (const passes::TokenSlot& slot : form.slots) {
    import::SlotInfo made;
    made.layers = slot.layers;
    made.kv_heads = static_cast<int32_t>(slot.kv_heads);
    made.dim_k = static_cast<int32_t>(slot.dim_k);
    made.dim_v = static_cast<int32_t>(slot.dim_v);
    made.window_tokens = static_cast<int32_t>(slot.window);
    made.position_scheme = slot.position_scheme;
    model.slots.push_back(std::move(made));
  }
  for (const passes::LengthChoice& choice : form.choices) {
    model.warnings.push_back(
        fmt::format("{} chooses tables of cos and sin by length; the plan holds those that it "
                    "chooses at {} tokens, for all lengths",
                    choice.node, choice.decided_at));
  }
  model.vocabulary_size = form.vocabulary_size;
  model.hidden_size = form.hidden_size;
  model.num_layers = static_cast<int64_t>(form.layers.size());
  if (shorter) {
    model.max_context_length = found_with.context_length;
    model.warnings.push_back(
        fmt::format("the file's tables end before {} tokens: the plan takes {}", wanted,
                    found_with.context_length));
  }
  if (model.max_context_length == 0) {
    model.max_context_length = form.capacity > 0 ? form.capacity : wanted;
    model.warnings.push_back(
        fmt::format("the file does not say for how many tokens the model was trained; the plan "
                    "takes {} (--max-context-length)",
                    model.max_context_length));
  }
  limit_to_positions(form, options, model);
  limit_to_proven(form, options, model);
  return Conversion{std::move(form), std::move(found_with)};
}

}  // namespace kvern::compile
