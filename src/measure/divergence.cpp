#include "measure/divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

namespace kvern::measure {
namespace {

constexpr size_t kQueueRows = 64;

// Rows of logits on their way from the candidate's thread to the comparing one.
class RowQueue {
 public:
  void push(std::vector<float> row) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return rows_.size() < kQueueRows || closed_; });
    rows_.push_back(std::move(row));
    changed_.notify_all();
  }
  // Empty when the other side ended early.
  std::vector<float> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !rows_.empty() || closed_; });
    if (rows_.empty()) return {};
    std::vector<float> row = std::move(rows_.front());
    rows_.pop_front();
    changed_.notify_all();
    return row;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<float>> rows_;
  bool closed_ = false;
};

double log_sum_exp(std::span<const float> logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  return top + std::log(sum);
}

size_t argmax(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

struct Sums {
  double kl = 0, max_kl = 0, reference_loss = 0, candidate_loss = 0;
  int64_t positions = 0, agreed = 0;

  void add(std::span<const float> reference, std::span<const float> candidate, int32_t next_id) {
    const double reference_norm = log_sum_exp(reference);
    const double candidate_norm = log_sum_exp(candidate);
    double position_kl = 0;
    for (size_t i = 0; i < reference.size(); ++i) {
      const double log_p = reference[i] - reference_norm;
      const double log_q = candidate[i] - candidate_norm;
      position_kl += std::exp(log_p) * (log_p - log_q);
    }
    kl += position_kl;
    max_kl = std::max(max_kl, position_kl);
    agreed += argmax(reference) == argmax(candidate) ? 1 : 0;
    reference_loss += reference_norm - reference[static_cast<size_t>(next_id)];
    candidate_loss += candidate_norm - candidate[static_cast<size_t>(next_id)];
    ++positions;
  }

  Divergence result() const {
    const auto n = static_cast<double>(positions);
    return {positions,
            kl / n,
            max_kl,
            static_cast<double>(agreed) / n,
            std::exp(reference_loss / n),
            std::exp(candidate_loss / n)};
  }
};

}  // namespace

Divergence divergence(engine::Engine& reference, engine::Engine& candidate,
                      const std::vector<int32_t>& ids) {
  if (reference.vocabulary_size() != candidate.vocabulary_size() || ids.size() < 2) {
    throw Error(Code::kInvalidArgument,
                fmt::format("divergence: needs equal vocabularies ({} and {}) and at least 2 ids "
                            "({} given)",
                            reference.vocabulary_size(), candidate.vocabulary_size(), ids.size()));
  }
  std::vector<int32_t> rows(ids.size() - 1);
  std::iota(rows.begin(), rows.end(), 0);
  RowQueue queue;
  std::exception_ptr failure;
  std::thread candidate_thread([&] {
    try {
      candidate.score(ids, rows, [&](int32_t, std::span<const float> logits) {
        queue.push({logits.begin(), logits.end()});
      });
    } catch (...) {
      failure = std::current_exception();
    }
    queue.close();
  });
  Sums sums;
  std::exception_ptr own_failure;
  try {
    reference.score(ids, rows, [&](int32_t position, std::span<const float> logits) {
      const std::vector<float> other = queue.pop();
      if (!other.empty()) sums.add(logits, other, ids[static_cast<size_t>(position) + 1]);
    });
  } catch (...) {
    own_failure = std::current_exception();
  }
  queue.close();
  candidate_thread.join();
  if (own_failure) std::rethrow_exception(own_failure);
  if (failure) std::rethrow_exception(failure);
  return sums.result();
}

}  // namespace kvern::measure
