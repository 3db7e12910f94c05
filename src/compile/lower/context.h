// What a node's lowering sees: where values live, and the instruction being made.
#pragma once

#include <string>
#include <vector>

#include "compile/ir/graph.h"
#include "compile/lower/lower.h"
#include "kernels/kv_slot.h"

namespace kvern::lower {

class Context {
 public:
  Context(const ir::Graph& graph, const plan::KvLayout& layout, Activations activations,
          Lowered& out);

  const ir::Graph& graph() const { return graph_; }
  // What the linear that makes `output` rounds its inputs to. The head, the graph's last linear,
  // keeps the default: its errors would be those of the logits.
  Activations activations_of(ir::ValueId output) const {
    return output == head_ ? Activations::kDefault : activations_;
  }
  const ir::Type& type(ir::ValueId id) const { return graph_.value(id).type; }
  // The last dim of a value, which is constant in every graph that lowers.
  int64_t width(ir::ValueId id) const;

  // Places of values. A step input, a weight, a fresh buffer, or a stretch of another value's rows.
  void bind_step_input(ir::ValueId id, const std::string& name);
  void bind_weight(ir::ValueId id, const std::string& weight_name);
  void bind_view(ir::ValueId id, ir::ValueId of, int64_t offset_bytes);
  void bind_buffer(ir::ValueId id);
  void add_output(ir::ValueId id, const std::string& name);
  // The format in which the weight behind `id` is stored. KVERN_CHECKs that it is a weight.
  const plan::Weight& weight(ir::ValueId id) const;

  template <class Desc>
  void emit(const char* family, const Desc& desc, const std::vector<ir::ValueId>& inputs,
            const std::vector<ir::ValueId>& outputs) {
    emit_fields(family, to_fields(desc), inputs, outputs);
  }
  // Copies the slot's shapes, formats and places into a Desc.
  void fill_slot(int64_t slot, kernels::KvSlotDesc& desc) const;

 private:
  void emit_fields(const char* family, std::vector<NamedField> desc,
                   const std::vector<ir::ValueId>& inputs, const std::vector<ir::ValueId>& outputs);
  plan::OperandRef place(ir::ValueId id) const;
  plan::RowCount row_count(ir::ValueId id) const;

  struct Place {
    bool bound = false;
    plan::OperandRef ref;
  };
  const ir::Graph& graph_;
  const plan::KvLayout& layout_;
  const Activations activations_;
  ir::ValueId head_{-1};
  Lowered& out_;
  std::vector<Place> places_;
};

}  // namespace kvern::lower
