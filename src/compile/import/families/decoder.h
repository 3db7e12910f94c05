// One decoder for all families: what differs between them is data. A family reads its configuration
// into a DecoderConfig and binds its file's tensors to the names below; the builder writes the
// graph the way the papers do, nothing fused.
#pragma once

#include <string>
#include <vector>

#include "compile/import/families/weight_set.h"
#include "compile/import/import.h"

namespace kvern::import {

enum class NormKind : uint8_t { kRms, kLayer };

// Where a block f (attention, MLP) is normed. kPre: x + f(n(x)); kPost (OLMo 2): x + p(f(x));
// kSandwich (Gemma 2 and 3): x + p(f(n(x))).
enum class NormPlaces : uint8_t { kPre, kPost, kSandwich };

// RMS norm of q and k before rotation: each head alone (gamma [head_dim]: Qwen 3, Gemma 3), or the
// row of all heads at once (gamma [heads * head_dim]: OLMo 2).
enum class QkNorm : uint8_t { kNone, kPerHead, kWholeRow };

// kGeluTanh: "gelu_new", "gelu_pytorch_tanh", "gelu_fast"; kGeluErf: "gelu".
enum class Activation : uint8_t { kSilu, kGeluTanh, kGeluErf };

// kLinear: frequencies / factor. kLlama3: Llama 3.1's bands by wavelength.
enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3 };

struct RopeConfig {
  double base = 10000.0;
  int64_t rotary_dim = 0;  // of a head, from its start; even; the rest passes through
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0;         // kLlama3
  double high_freq_factor = 4.0;        // kLlama3
  int64_t original_context_length = 0;  // kLlama3
  // Divisors, one per frequency [rotary_dim / 2], or empty: GGUF's rope_freqs.weight.
  std::vector<double> factors;
  double attention_factor = 1.0;  // cos and sin are multiplied by it: YaRN, LongRoPE
};

struct DecoderLayer {
  int64_t window = 0;  // a token sees so many positions, its own among them; 0: all
  int rope = 0;        // index into DecoderConfig::ropes; -1: positions are not turned (NoPE)
};

struct DecoderConfig {
  std::string family;  // "gemma3"
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t ffn_size = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t vocabulary_size = 0;
  int64_t max_context_length = 0;

  NormKind norm = NormKind::kRms;
  float norm_eps = 1e-5f;
  NormPlaces norm_places = NormPlaces::kPre;
  bool parallel_residual = false;  // GPT-NeoX: x + attention(n1(x)) + mlp(n2(x)); kPre only
  QkNorm qk_norm = QkNorm::kNone;
  float qk_norm_eps = 0.0f;  // 0: norm_eps

  std::vector<RopeConfig> ropes;  // empty: no rotary positions
  bool rope_interleaved = false;  // neighbouring pairs instead of halves
  // One per layer, or empty: all see everything and turn by rope 0.
  std::vector<DecoderLayer> layers;
  int64_t learned_positions = 0;  // rows of positions.weight, which are added to the embedding

  float attention_scale = 0.0f;    // 0: 1 / sqrt(head_dim). Granite: its attention_multiplier
  float attention_softcap = 0.0f;  // 0: none; scores become c * tanh(score / c)
  float final_softcap = 0.0f;      // the same of logits
  Activation activation = Activation::kSilu;
  bool gated_mlp = true;  // down(act(gate(x)) * up(x)), else down(act(up(x)))

  float embedding_multiplier = 1.0f;  // Gemma: sqrt(hidden_size)
  float residual_multiplier = 1.0f;   // of what each block adds
  float logits_multiplier = 1.0f;     // Granite: 1 / logits_scaling
};

// Names that `weights` must have bound, all with ".weight"; [rows, cols] as a linear layer has
// them:
//   embed [vocabulary, hidden]; positions [learned_positions, hidden] where there are any; norm
//   layers.N.attn.{q, k, v, o};   layers.N.attn.{q_norm, k_norm} where qk_norm asks for them
//   layers.N.mlp.{gate, up, down}; no gate where the MLP is not gated
//   layers.N.{attn_norm, mlp_norm} unless norm_places is kPost
//   layers.N.{attn_post_norm, mlp_post_norm} unless norm_places is kPre
// By presence: head (else tied to embed), and ".bias" beside the ".weight" of every linear, of head
// and of every layer norm. Gammas are what multiplies: Gemma's files from Hugging Face keep them
// less 1, so bind those by bind_offset(…, 1). GGUF's have the 1 in them.
//
// Throws Error(kInvalidModel) where sizes do not fit together.
void build_decoder(const DecoderConfig& config, WeightSet& weights, ir::Graph& graph);

// One slot per layer.
std::vector<SlotInfo> decoder_slots(const DecoderConfig& config);

// build_decoder, and the model's slots and sizes.
void finish_decoder(const DecoderConfig& config, WeightSet& weights, ImportedModel& model);

}  // namespace kvern::import
