// A model's pre-tokenizers, in their order: text to words.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "text/normalizer.h"
#include "text/regex.h"
#include "text/split_parts.h"
#include "text/text_step.h"

namespace kvern::text {

class Splitter {
 public:
  // Throws Error(kInvalidModel) for a step that is none of a splitter or is damaged.
  explicit Splitter(std::span<const Step> steps);
  ~Splitter();
  Splitter(Splitter&&) noexcept;
  Splitter& operator=(Splitter&&) noexcept;

  // What one encode() call keeps between texts.
  struct Scratch {
    std::deque<std::string> texts;  // made along the way; words point into them
    std::vector<std::unique_ptr<Regex::Matcher>> matchers;  // [steps]
  };

  // Calls `word` for each, in order. Words point into `text` or into `scratch`, which must be of
  // this splitter alone.
  void split(std::string_view text, Place place, Scratch& scratch,
             FunctionRef<void(std::string_view)> word) const;

 private:
  struct Compiled;
  std::vector<Part> parts(size_t step, std::string_view text, Scratch& scratch) const;
  void run(size_t step, std::string_view text, Place place, Scratch& scratch,
           FunctionRef<void(std::string_view)> word) const;

  std::vector<Compiled> steps_;
};

}  // namespace kvern::text
