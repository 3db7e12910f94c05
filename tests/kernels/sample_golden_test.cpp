// Against transformers' logits processors and torch: tests/golden/sampling.json.
#include "base/file.h"
#include "base/json.h"
#include "tests/kernels/sample_rows.h"

namespace kvern::kernels {
namespace {

const Json& golden() {
  static const Json json = parse_json(
      read_text_file(KVERN_TEST_DATA "/golden/sampling.json", 1 << 20), "golden", Code::kIo);
  return json;
}

std::vector<float> logits_of(const Json& one) {
  std::vector<float> out;
  for (const Json& x : one["logits_x256"]) out.push_back(x.get<float>() / 256.0f);
  return out;
}

TEST(SampleGolden, KeepsAndWeighsWhatTransformersDoes) {
  for (const Json& one : golden()["cases"]) {
    SCOPED_TRACE("temperature " + one["temperature"].dump() + " top_p " + one["top_p"].dump());
    std::vector<int32_t> prompt = one["prompt"].get<std::vector<int32_t>>();
    std::sort(prompt.begin(), prompt.end());
    prompt.erase(std::unique(prompt.begin(), prompt.end()), prompt.end());
    std::vector<LogitChange> changes;
    for (const int32_t id : prompt) {
      changes.push_back({id, 0.0f, one["repetition_penalty"].get<float>(), 0.0f});
    }
    SampleRow row;
    row.changes = changes;
    row.temperature = one["temperature"].get<float>();
    row.top_k = one["top_k"].get<int32_t>();
    row.min_p = one["min_p"].get<float>();
    row.top_p = one["top_p"].get<float>();
    row.seed = 5;
    const std::vector<float> logits = logits_of(one);
    std::vector<double> wanted(logits.size(), 0.0);
    for (size_t i = 0; i < one["kept"].size(); ++i) {
      wanted[one["kept"][i].get<size_t>()] = one["probabilities"][i].get<double>();
    }
    const std::vector<int32_t> ids = testing::draw(logits, row, 20000);
    EXPECT_LT(std::abs(testing::surprise(ids, wanted)), 3.5);
    for (size_t id = 0; id < wanted.size(); ++id) {
      if (wanted[id] * 20000 < 20) continue;
      EXPECT_NE(std::count(ids.begin(), ids.end(), static_cast<int32_t>(id)), 0) << id;
    }
  }
}

TEST(SampleGolden, LogprobsAreTorchs) {
  for (const Json& one : golden()["cases"]) {
    std::vector<float> logits = logits_of(one);
    for (int32_t id = 0; id < 20; ++id) {
      TokenLogprobs told;
      SampleRow row;
      row.logits = logits.data();
      row.target = id;
      row.logprobs = &told;
      SampleScratch scratch;
      sample_cpu(
          {{&row, 1}, static_cast<int64_t>(logits.size()), &scratch, &testing::stream_of(1)});
      EXPECT_NEAR(told.token.logprob,
                  one["logprobs_of_first"][static_cast<size_t>(id)].get<double>(), 1e-5);
    }
  }
}

}  // namespace
}  // namespace kvern::kernels
