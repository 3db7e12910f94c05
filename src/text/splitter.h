// A model's pre-tokenizers, in their order: text to words.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "text/normalizer.h"
#include "text/text_step.h"

namespace kvern::text {

class Splitter {
 public:
  // Throws Error(kInvalidModel) for a step that is none of a splitter or is damaged.
  explicit Splitter(std::span<const Step> steps);
  ~Splitter();
  Splitter(Splitter&&) noexcept;
  Splitter& operator=(Splitter&&) noexcept;

  // Texts that steps made along the way; words point into them.
  using Arena = std::deque<std::string>;

  // Calls `word` for each, in order. Words point into `text` or into `arena`.
  void split(std::string_view text, Place place, Arena& arena,
             FunctionRef<void(std::string_view)> word) const;

 private:
  struct Compiled;
  void run(size_t step, std::string_view text, Place place, Arena& arena,
           FunctionRef<void(std::string_view)> word) const;

  std::vector<Compiled> steps_;
};

}  // namespace kvern::text
