#include "run/sched/request.h"

namespace kvern::sched {

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "none";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kExported:
      return "exported";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kKvExhausted:
      return "kv_exhausted";
    case FinishReason::kFailed:
      return "failed";
  }
  return "unknown";
}

}  // namespace kvern::sched
