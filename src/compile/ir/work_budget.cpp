#include "compile/ir/work_budget.h"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "kvern/error.h"

namespace kvern::ir {
namespace {

thread_local WorkBudget* current = nullptr;
constexpr std::chrono::milliseconds kBetweenStopChecks{20};

std::byte* allocate(uint64_t bytes, bool zeroed) {
  const size_t size = bytes == 0 ? 1 : bytes;
  try {
    return zeroed ? new std::byte[size]() : new std::byte[size];
  } catch (const std::bad_alloc&) {
    throw Error(Code::kOutOfMemory, fmt::format("there is no memory for {} bytes", bytes));
  }
}

}  // namespace

WorkBudget::WorkBudget(WorkLimits limits) : limits_(std::move(limits)), outer_(current) {
  if (limits_.max_bytes > 0) {
    account_ = std::make_shared<Account>();
    account_->max_bytes = limits_.max_bytes;
  } else if (outer_ != nullptr) {
    account_ = outer_->account_;
  }
  current = this;
}

WorkBudget::~WorkBudget() {
  current = outer_;
}

void spend_multiply_adds(double count) {
  for (WorkBudget* budget = current; budget != nullptr; budget = budget->outer_) {
    budget->multiply_adds_ += count;
    const double limit = budget->limits_.max_multiply_adds;
    if (limit > 0 && budget->multiply_adds_ > limit) {
      throw Error(Code::kUnsupported,
                  fmt::format("products of constants take more than {:.0e} multiplications; export "
                              "with constants folded",
                              limit));
    }
  }
}

void check_stop() {
  WorkBudget* budget = current;
  while (budget != nullptr && !budget->limits_.stop) budget = budget->outer_;
  if (budget == nullptr) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - budget->last_stop_check_ < kBetweenStopChecks) return;
  budget->last_stop_check_ = now;
  budget->limits_.stop();
}

std::shared_ptr<std::byte[]> make_elements(uint64_t bytes, bool zeroed) {
  const auto account = current == nullptr ? nullptr : current->account_;
  if (account == nullptr) return std::shared_ptr<std::byte[]>(allocate(bytes, zeroed));
  const uint64_t alive = account->alive_bytes += bytes;
  if (alive > account->max_bytes) {
    account->alive_bytes -= bytes;
    throw Error(Code::kOutOfMemory,
                fmt::format("values would take {} bytes, more than the limit of {}", alive,
                            account->max_bytes));
  }
  std::byte* made = nullptr;
  try {
    made = allocate(bytes, zeroed);
  } catch (const Error&) {
    account->alive_bytes -= bytes;
    throw;
  }
  return {made, [account, bytes](const std::byte* elements) {
            delete[] elements;
            account->alive_bytes -= bytes;
          }};
}

}  // namespace kvern::ir
