#include "kvern/error.h"

namespace kvern {

const char* code_name(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kInvalidModel:
      return "invalid_model";
    case Code::kInvalidPlan:
      return "invalid_plan";
    case Code::kInvalidRequest:
      return "invalid_request";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kNotFound:
      return "not_found";
    case Code::kIo:
      return "io";
    case Code::kOutOfMemory:
      return "out_of_memory";
    case Code::kDevice:
      return "device";
    case Code::kInternal:
      return "internal";
  }
  return "unknown";
}

}  // namespace kvern
