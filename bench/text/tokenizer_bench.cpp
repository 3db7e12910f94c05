// MB/s of text to ids on one thread, per CPU second. The text is 1 MB with the statistics of prose:
// a lexicon of 20,000 words drawn by Zipf's law, and one line in twelve from the goldens (scripts,
// emoji, code, digits). Vocabulary: SmolLM2's where the model is there (49,152 tokens), split by
// every scanner in turn; Gemma 3's (262,144) where KVERN_GEMMA3 names its file; then the small
// tokenizers of tests/golden/, whose words are longer in ids.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "base/file.h"
#include "compile/import/gguf/tokenizer.h"
#include "compile/import/hf/tokenizer_json.h"
#include "compile/import/hf/tokenizer_model.h"
#include "text/tokenizer.h"

namespace kvern::bench {
namespace {

constexpr size_t kText_bytes = 1 << 20;

std::vector<std::string> golden_lines() {
  std::vector<std::string> lines;
  std::ifstream file(std::string(KVERN_TEST_DATA) + "/golden/tok_lines.jsonl");
  for (std::string line; std::getline(file, line);) {
    lines.push_back(import::hf::parse_tree(line, "tok_lines.jsonl").text);
  }
  return lines;
}

std::vector<std::string> lexicon(std::mt19937& random) {
  const std::string path = std::string(KVERN_TEST_DATA) + "/golden/english_2000.txt";
  std::vector<std::string> words;
  std::string word;
  for (const char c : read_text_file(path, 1 << 20)) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      word.push_back(c);
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  const size_t num_real = words.size();
  while (words.size() < 20'000) {
    const std::string& head = words[random() % num_real];
    const std::string& tail = words[random() % num_real];
    words.push_back(head.substr(0, 1 + random() % 5) + tail.substr(tail.size() / 2));
  }
  return words;
}

std::string make_text() {
  std::mt19937 random(2026);
  const std::vector<std::string> words = lexicon(random);
  const std::vector<std::string> lines = golden_lines();
  std::uniform_real_distribution<double> unit(0, 1);
  std::string text;
  while (text.size() < kText_bytes) {
    if (random() % 12 == 0) text += lines[random() % lines.size()] + "\n";
    for (int i = 0; i < 14; ++i) {
      const double rank = std::exp(unit(random) * std::log(static_cast<double>(words.size())));
      text += words[static_cast<size_t>(rank) - 1];
      text += i == 13 ? ".\n" : random() % 9 == 0 ? ", " : " ";
    }
  }
  return text;
}

void encode(benchmark::State& state, const text::TextModel& model) {
  static const std::string text = make_text();
  const text::Tokenizer tokenizer(model);
  size_t num_ids = 0;
  for (auto _ : state) {
    num_ids = tokenizer.encode(text, {.add_special = false, .parse_special = false}).size();
    benchmark::DoNotOptimize(num_ids);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["bytes_per_id"] = static_cast<double>(text.size()) / static_cast<double>(num_ids);
}

void add(const std::string& name, text::TextModel model) {
  benchmark::RegisterBenchmark(name.c_str(), [model = std::move(model)](benchmark::State& state) {
    encode(state, model);
  })->Unit(benchmark::kMillisecond);
}

// The tokenizer of the GGUF file that the environment names; empty where it names none.
text::TextModel model_of(const char* variable) {
  const char* given = std::getenv(variable);
  if (given == nullptr || !std::filesystem::exists(given)) return {};
  const MappedFile file(given);
  std::vector<std::string> warnings;
  return import::gguf::read_tokenizer(import::gguf::read(file.bytes(), given), warnings);
}

void add_gemma3() {
  text::TextModel model = model_of("KVERN_GEMMA3");
  if (!model.empty()) add("gemma3", std::move(model));
}

void add_smollm2() {
  text::TextModel model = model_of("KVERN_SMOLLM2");
  if (model.empty()) return;
  constexpr std::pair<const char*, text::Scanner> kScanners[] = {
      {"gpt2", text::Scanner::kGpt2},     {"smollm", text::Scanner::kSmolLm},
      {"llama3", text::Scanner::kLlama3}, {"qwen2", text::Scanner::kQwen2},
      {"gpt4o", text::Scanner::kGpt4o},   {"tekken", text::Scanner::kTekken},
      {"qwen35", text::Scanner::kQwen35}};
  for (const auto& [name, scanner] : kScanners) {
    model.splits = {text::scan_step(scanner)};
    add(std::string("smollm2_vocabulary/") + name, model);
  }
  model.normalizers = {{.kind = text::StepKind::kNfc}};
  add("smollm2_vocabulary/qwen35_nfc", model);
}

void add_goldens() {
  for (const char* kind : {"llama3", "regex", "llama2", "gemma", "unigram", "charsmap"}) {
    const std::string path = std::string(KVERN_TEST_DATA) + "/golden/tok_" + kind + ".json";
    add(std::string("golden/") + kind,
        import::hf::read_tokenizer_json(read_text_file(path, 1 << 20), path));
  }
  for (const char* kind : {"sp_bpe", "sp_unigram"}) {
    const MappedFile file(std::string(KVERN_TEST_DATA) + "/golden/tok_" + kind + ".model");
    add(std::string("golden/") + kind,
        import::hf::read_tokenizer_model(file.bytes(), file.path(), {}));
  }
}

}  // namespace
}  // namespace kvern::bench

int main(int argc, char** argv) {
  kvern::bench::add_smollm2();
  kvern::bench::add_gemma3();
  kvern::bench::add_goldens();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
