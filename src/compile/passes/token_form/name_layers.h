// Names as the families give them ("layers.3.attn.q"), whatever the file calls its nodes: so that
// reports, `inspect --why` and two plans of one model read alike.
#pragma once

#include "compile/ir/graph.h"

namespace kvern::passes::token_form {

// Nodes keep the file's own name as their source_name.
void name_layers(ir::Graph& graph);

}  // namespace kvern::passes::token_form
