#include "tests/compile/passes/token_form_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "base/check.h"
#include "base/file.h"
#include "base/hash.h"

namespace kvern::passes {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = KVERN_TEST_DATA "/token_form/";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line);
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

// "weight %w float[8, 8]": numbers in [-1, 1) by the weight's name.
std::string random_constant(const std::string& line) {
  const size_t percent = line.find('%'), open = line.find('['), close = line.find(']');
  KVERN_CHECK(close != std::string::npos, "no weight: {}", line);
  int64_t count = 1;
  for (const std::string& dim :
       words_of(replaced(line.substr(open + 1, close - open - 1), ",", " "))) {
    count *= std::stoll(dim);
  }
  uint64_t state = hash64(line.substr(percent, line.find(' ', percent) - percent), 7);
  std::string values;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto value =
        static_cast<double>(static_cast<int64_t>(state >> 40) - (1 << 23)) / (1 << 23);
    values += fmt::format("{}{:.3f}", i > 0 ? ", " : "", value);
  }
  return fmt::format("const {} = {{{}}}", line.substr(percent), values);
}

// One line of a graph, with what it stands for.
std::string expanded(const std::string& line, int depth = 0) {
  KVERN_CHECK(depth < 8, "parts use each other: {}", line);
  if (line.starts_with("weight ")) return random_constant(line).append("\n");
  if (!line.starts_with("use ")) return line.substr(0, line.find('#')).append("\n");
  const std::vector<std::string> words = words_of(line);
  std::string text = read_text_file(kFolder + words.at(1) + ".part", 1 << 20);
  for (size_t i = 2; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    text = replaced(text, "$" + words[i].substr(0, equals), words[i].substr(equals + 1));
  }
  std::string out;
  for (const std::string& inner : lines_of(text)) out += expanded(inner, depth + 1);
  return out;
}

void read_option(const std::string& line, TokenFormCase& out) {
  TokenFormOptions& options = out.options;
  const std::vector<std::string> words = words_of(line);
  const std::string& kind = words.at(1);
  const std::string& what = words.at(2);
  const size_t equals = what.find('=');
  const std::string name = what.substr(0, equals);
  if (kind == "state") {
    options.states[name] = what.substr(equals + 1);
  } else if (kind == "input") {
    options.inputs[name] = what.substr(equals + 1);
  } else if (kind == "config") {
    options.config[name] = std::stoll(what.substr(equals + 1));
  } else if (kind == "context_length") {
    options.context_length = std::stoll(what);
  } else if (kind == "rounds") {
    out.rounding = std::stod(what);
  } else {
    KVERN_CHECK(false, "no option: {}", line);
  }
}

// Float constants lie in a file of their own, so that they become weights with sources.
void give_origins(TokenFormCase& at) {
  auto file = std::make_shared<std::vector<std::byte>>();
  std::vector<std::pair<ir::TensorValueId, size_t>> places;
  for (size_t id = 0; id < at.model.graph.values.size(); ++id) {
    const auto found = at.model.graph.constants.find(static_cast<ir::TensorValueId>(id));
    if (found == at.model.graph.constants.end() || !ir::is_float(found->second.type())) continue;
    if (found->second.count() < 2) continue;
    file->resize((file->size() + 63) / 64 * 64);
    places.emplace_back(found->first, file->size());
    const auto bytes = found->second.bytes();
    file->insert(file->end(), bytes.begin(), bytes.end());
  }
  for (const auto& [id, offset] : places) {
    ir::Array& array = at.model.graph.constants.at(id);
    array = ir::Array::view(array.type(), array.shape(),
                            std::span(*file).subspan(offset, array.bytes().size()), file,
                            ir::ArrayOrigin{at.model.graph.name_of(id), 0, offset});
  }
  at.file = std::move(file);
}

}  // namespace

std::vector<std::string> token_form_cases() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".txt") out.push_back(entry.path().stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

TokenFormCase read_token_form_case(const std::string& name) {
  TokenFormCase out;
  out.path = kFolder + name + ".txt";
  std::string section, tensor;
  for (const std::string& line : lines_of(read_text_file(out.path, 1 << 20))) {
    if (line.starts_with("--- ")) {
      section = line.substr(4);
    } else if (section.empty()) {
      if (line.starts_with("option ")) read_option(line, out);
    } else if (section == "tensor") {
      tensor += expanded(line);
    } else if (section == "found") {
      out.found += line + "\n";
    } else if (section == "token") {
      out.token += line + "\n";
    } else if (section == "refused" && !line.empty()) {
      out.refused.push_back(line);
    }
  }
  out.model.graph = ir::parse_tensor_graph(tensor);
  ir::verify(out.model.graph);
  out.model.opsets[""] = 18;
  give_origins(out);
  return out;
}

std::string found_text(const TokenForm& form) {
  std::string out;
  for (const TokenLayer& layer : form.layers) {
    out += fmt::format("layer: {}, slot {}, heads {} on {}, dims {} {}, scale {:.4g}, ",
                       layer.attention, layer.slot, layer.heads, layer.kv_heads, layer.dim_k,
                       layer.dim_v, layer.scale);
    if (layer.softcap != 0) out += fmt::format("softcap {:.4g}, ", layer.softcap);
    out += fmt::format("{}, rope {}, cache {}\n", layer.mask, layer.rope, layer.cache);
  }
  for (const TokenSlot& slot : form.slots) {
    out += fmt::format("slot: {}{}", slot.position_scheme,
                       slot.window > 0 ? fmt::format(", window {}", slot.window) : "");
    if (!slot.past_key.empty()) {
      out += fmt::format(", {} -> {}, {} -> {}", slot.past_key, slot.present_key, slot.past_value,
                         slot.present_value);
    }
    out += "\n";
  }
  return out;
}

std::string token_text(const ir::Graph& graph) {
  std::string out;
  static const std::regex origin(" from \"[^\"]*\"");
  static const std::regex type(" : [^:]*$");
  for (const std::string& line : lines_of(ir::print(graph))) {
    if (line.find(" source \"") != std::string::npos) continue;
    if (line.find(" = weight()") != std::string::npos) continue;
    if (line.starts_with("graph") || line == "}") continue;
    out += std::regex_replace(std::regex_replace(line.substr(2), origin, ""), type, "") + "\n";
  }
  return out;
}

void update_case(const TokenFormCase& at, const TokenForm& form) {
  std::string text = read_text_file(at.path, 1 << 20);
  for (const char* section : {"--- found", "--- token"}) {
    const size_t place = text.find(section);
    if (place != std::string::npos) text.resize(place);
  }
  std::ofstream(at.path) << text << "--- found\n"
                         << found_text(form) << "--- token\n"
                         << token_text(form.graph);
}

}  // namespace kvern::passes
