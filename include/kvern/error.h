// What Kvern throws. Every message says who found the fault, what was wanted, what was there, and
// what to do about it. No exception crosses the C API, a thread or a kernel launch.
#pragma once

#include <stdexcept>
#include <string>

namespace kvern {

enum class Code {
  kInvalidArgument,  // the call itself: an option out of range, a flag that does not exist
  kInvalidModel,     // a model file that is damaged or contradicts itself
  kInvalidPlan,      // a plan file that is damaged or was made for something else
  kInvalidRequest,   // a request that the loaded plan cannot serve
  kUnsupported,      // well formed, but Kvern does not do it (yet); the message names it
  kNotFound,         // a file or name that is not there
  kIo,               // reading or writing failed: permissions, a full disk
  kOutOfMemory,      // memory asked for at load exceeds what the machine or the limit gives
  kDevice,           // the device failed; the engine that meets it is unhealthy from then on
  kInternal,         // our bug
};

// "invalid_model", …: the stable name used in JSON output and by the C API.
const char* code_name(Code code);

class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Code code() const noexcept { return code_; }

 private:
  Code code_;
};

// A broken invariant of our own, thrown by KVERN_CHECK. The step that met it fails; the process
// lives on.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(Code::kInternal, message) {}
};

// The device stopped answering or reported an error that no retry mends.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error(Code::kDevice, message) {}
};

}  // namespace kvern
