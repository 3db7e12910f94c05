#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <unordered_set>

#include "base/quoted.h"
#include "compile/ir/tensor_graph.h"
#include "compile/ir/tensor_text.h"

namespace kvern::ir {
namespace {

// What values are called in the text: their names, made unique.
std::vector<std::string> unique_names(const TensorGraph& graph) {
  std::vector<std::string> names;
  std::unordered_set<std::string> used;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    std::string name = graph.values[i].name;
    if (name.empty()) name = fmt::format("v{}", i);
    while (!used.insert(name).second) name += fmt::format(".{}", i);
    names.push_back(fmt::format("%{}", print_name(name)));
  }
  return names;
}

class Printer {
 public:
  Printer(const TensorGraph& graph, const std::vector<std::string>* outer, size_t depth)
      : graph_(graph), outer_(outer), names_(unique_names(graph)), indent_(2 * depth, ' ') {}

  std::string print() {
    for (const auto& [outer, own] : graph_.captures) {
      line("capture {} = {}", name(own),
           outer_ == nullptr ? fmt::format("%outer.{}", outer)
                             : (*outer_)[static_cast<size_t>(outer)]);
    }
    for (const TensorValueId id : graph_.inputs) line("input {}{}", name(id), declared(id));
    std::vector<TensorValueId> constants;
    for (const auto& [id, array] : graph_.constants) constants.push_back(id);
    std::sort(constants.begin(), constants.end());
    for (const TensorValueId id : constants) {
      line("const {} {}", name(id), print_array(graph_.constants.at(id)));
    }
    for (const TensorNode& node : graph_.nodes) print_node(node);
    for (const TensorValueId id : graph_.outputs) line("output {}{}", name(id), declared(id));
    return std::move(out_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    out_ += indent_ + fmt::format(text, std::forward<Args>(args)...) + "\n";
  }

  std::string name(TensorValueId id) const {
    return id == kNoValue ? "_" : names_[static_cast<size_t>(id)];
  }

  static std::string dim_text(const TensorDim& dim) {
    if (dim.value >= 0) return fmt::format("{}", dim.value);
    if (dim.name.empty()) return "?";
    const bool number = std::isdigit(static_cast<unsigned char>(dim.name[0])) != 0 ||
                        dim.name[0] == '-';  // a name all the same
    return number ? quote(dim.name) : print_name(dim.name);
  }

  std::string declared(TensorValueId id) const {
    const TensorValue& value = graph_.values[static_cast<size_t>(id)];
    if (value.type == ElementType::kUndefined) return "";
    std::string out = fmt::format(" {}", element_type_name(value.type));
    if (!value.has_shape) return out;
    out += "[";
    for (size_t i = 0; i < value.dims.size(); ++i) {
      out += (i == 0 ? "" : ", ") + dim_text(value.dims[i]);
    }
    return out + "]";
  }

  std::string list_of(const std::vector<TensorValueId>& ids) const {
    std::string out;
    for (size_t i = 0; i < ids.size(); ++i) out += (i == 0 ? "" : ", ") + name(ids[i]);
    return out;
  }

  void print_node(const TensorNode& node) {
    std::string attrs;
    for (const auto& [key, value] : node.attrs) {
      attrs += (attrs.empty() ? "" : ", ") + print_name(key) + " = " + attr_text(value);
    }
    line("{} = {}{}{}({}){} opset {}{}", list_of(node.outputs), node.domain,
         node.domain.empty() ? "" : ".", node.op, list_of(node.inputs),
         attrs.empty() ? "" : " {" + attrs + "}", node.opset,
         node.name.empty() ? "" : " named " + quote(node.name));
  }

  // Attributes are float32 in the file: the shortest text of that float, marked as one.
  static std::string real_text(double value) {
    std::string out = fmt::format("{}", static_cast<float>(value));
    if (out.find_first_of(".en") == std::string::npos) out += ".0";
    return out;
  }

  template <class T, class Text>
  static std::string list_text(const std::vector<T>& values, const char* empty, Text text) {
    if (values.empty()) return empty;
    std::string out = "[";
    for (size_t i = 0; i < values.size(); ++i) out += (i == 0 ? "" : ", ") + text(values[i]);
    return out + "]";
  }

  std::string attr_text(const TensorAttr& attr) const {
    const auto integer = [](int64_t v) { return fmt::format("{}", v); };
    if (const auto* v = std::get_if<int64_t>(&attr)) return integer(*v);
    if (const auto* v = std::get_if<double>(&attr)) return real_text(*v);
    if (const auto* v = std::get_if<std::string>(&attr)) return quote(*v);
    if (const auto* v = std::get_if<std::vector<int64_t>>(&attr)) {
      return list_text(*v, "[]", integer);
    }
    if (const auto* v = std::get_if<std::vector<double>>(&attr)) {
      return list_text(*v, "floats []", real_text);
    }
    if (const auto* v = std::get_if<std::vector<std::string>>(&attr)) {
      return list_text(*v, "strings []", [](const std::string& s) { return quote(s); });
    }
    if (const auto* v = std::get_if<Array>(&attr)) return "tensor " + print_array(*v);
    const auto& body = std::get<std::shared_ptr<const TensorGraph>>(attr);
    const size_t depth = indent_.size() / 2 + 1;
    return "graph {\n" + Printer(*body, &names_, depth).print() + indent_ + "}";
  }

  const TensorGraph& graph_;
  const std::vector<std::string>* outer_;
  std::vector<std::string> names_;
  std::string indent_;
  std::string out_;
};

}  // namespace

std::string print(const TensorGraph& graph) {
  return Printer(graph, nullptr, 0).print();
}

}  // namespace kvern::ir
