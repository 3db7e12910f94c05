// Cases of tests/token_form/*.txt: a graph in tensor form, and what to_token_form makes of it.
//
//   # what the case shows
//   option state past_k=present_k        also: input NAME=MEANING, config NAME=NUMBER,
//                                        context_length N, rounds R: the graph does, by so much
//   --- tensor
//   use decoder_begin L=0                the text of tests/token_form/decoder_begin.part, with
//   every
//                                        $L replaced by 0
//   weight %w float[8, 8]                a constant of random numbers, the same ones in every run
//   %y = MatMul(%x, %w)                  else the text form of ir::TensorGraph
//   --- found                            what was recognised
//   --- token                            the converted graph without sources and origins
//   --- refused                          instead of these two: parts of the message, one a line
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compile/ir/tensor_graph.h"
#include "compile/passes/token_form/token_form.h"

namespace kvern::passes {

struct TokenFormCase {
  std::string path;
  ir::TensorModel model;  // constants have origins in `file`
  std::shared_ptr<const std::vector<std::byte>> file;
  TokenFormOptions options;
  double rounding = 1e-4;            // that logits may differ by, relative
  std::string found, token;          // expected
  std::vector<std::string> refused;  // expected parts of the message; empty: it converts
};

// Names of all cases, without ".txt", sorted.
std::vector<std::string> token_form_cases();
TokenFormCase read_token_form_case(const std::string& name);

// The sections of a case, as the conversion gives them.
std::string found_text(const TokenForm& form);
std::string token_text(const ir::Graph& graph);
// Writes the sections of `form` into the case's file (KVERN_UPDATE_TOKEN_FORM=1).
void update_case(const TokenFormCase& at, const TokenForm& form);

// Proves that original and conversion give equal logits on random ids: the original through its
// own past and present, or whole where it has none; the converted one in two chunks.
void expect_same_logits(const TokenFormCase& at, const TokenForm& form);

}  // namespace kvern::passes
