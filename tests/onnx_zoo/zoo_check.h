// One export of the zoo against what ONNX Runtime answered (oracle.json beside it,
// scripts/golden/onnx_zoo.py): built, loaded, asked alone, in a ragged batch, and once more.
#pragma once

#include <string>
#include <vector>

namespace kvern::zoo {

enum class State {
  kRight,    // logits and ids of every prompt, alone, in a batch, and from a warm prefix cache
  kRefused,  // the build said no; `message` says why
  kDiffers,  // it runs, and something is not equal; `message` says what
};
const char* state_name(State state);

struct Outcome {
  State state = State::kRight;
  std::string message;
  double worst_logit = 0;  // largest difference of a logit after a prompt
  int compared_ids = 0;    // ids of answers that were compared, each alone and in the batch
  int64_t prefix_hit_tokens = 0;
};

struct CheckOptions {
  double logit_tolerance = 1e-3;
  // ids are compared where ONNX Runtime's two likeliest are further apart than this.
  double margin = 1e-3;
  bool per_token_dynamic_quant = false;
  bool plain_kernels = false;
};

// `folder` holds the .onnx file, its config.json and oracle.json. Throws only for an oracle that
// cannot be read.
Outcome check_export(const std::string& folder, const CheckOptions& options = {});

// What is asked of exports of this style ("opt_past", "genai_int4", …).
CheckOptions options_of_style(const std::string& style);

}  // namespace kvern::zoo
