#include "kvern/c_api.h"

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "kvern/build.h"
#include "kvern/generate.h"

struct kvern_engine {
  kvern::Engine engine;
};

struct kvern_context {
  kvern::ExecutionContext context;
  std::string text;
  std::string reason;
};

namespace {

using kvern::Code;

thread_local std::string last_error;

kvern_status status_of(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return KVERN_INVALID_ARGUMENT;
    case Code::kInvalidModel:
      return KVERN_INVALID_MODEL;
    case Code::kInvalidPlan:
      return KVERN_INVALID_PLAN;
    case Code::kInvalidRequest:
      return KVERN_INVALID_REQUEST;
    case Code::kUnsupported:
      return KVERN_UNSUPPORTED;
    case Code::kNotFound:
      return KVERN_NOT_FOUND;
    case Code::kIo:
      return KVERN_IO;
    case Code::kOutOfMemory:
      return KVERN_OUT_OF_MEMORY;
    case Code::kDevice:
      return KVERN_DEVICE;
    case Code::kInternal:
      return KVERN_INTERNAL;
  }
  return KVERN_INTERNAL;
}

void keep_error(const char* message) noexcept {
  try {
    last_error = message;
  } catch (...) {  // no memory for the words; the status still tells
    last_error.clear();
  }
}

// Runs `action`; no exception leaves it.
template <class Action>
kvern_status guarded(const Action& action) noexcept {
  try {
    action();
    return KVERN_OK;
  } catch (const kvern::Error& error) {
    keep_error(error.what());
    return status_of(error.code());
  } catch (const std::bad_alloc&) {
    keep_error("out of memory");
    return KVERN_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    keep_error(error.what());
    return KVERN_INTERNAL;
  } catch (...) {
    keep_error("an unknown exception");
    return KVERN_INTERNAL;
  }
}

void require(bool given, const char* name) {
  if (!given) throw kvern::Error(Code::kInvalidArgument, std::string(name) + " is NULL");
}

}  // namespace

const char* kvern_last_error(void) {
  return last_error.c_str();
}

const char* kvern_version(void) {
  return KVERN_VERSION;
}

kvern_status kvern_build(const char* model_path, const char* plan_path) {
  return guarded([&] {
    require(model_path != nullptr, "model_path");
    require(plan_path != nullptr, "plan_path");
    kvern::Builder().build(model_path, plan_path);
  });
}

kvern_status kvern_engine_load(const char* plan_path, int32_t num_threads, kvern_engine** engine) {
  return guarded([&] {
    require(plan_path != nullptr, "plan_path");
    require(engine != nullptr, "engine");
    kvern::EngineOptions options;
    options.num_threads = num_threads;
    *engine = new kvern_engine{kvern::Engine::load(plan_path, options)};
  });
}

void kvern_engine_free(kvern_engine* engine) {
  delete engine;
}

kvern_status kvern_encode(kvern_engine* engine, const char* text, int32_t chat, int32_t* ids,
                          size_t capacity, size_t* count) {
  return guarded([&] {
    require(engine != nullptr, "engine");
    require(text != nullptr, "text");
    require(count != nullptr, "count");
    require(ids != nullptr || capacity == 0, "ids");
    const auto& tools = engine->engine.text();
    const std::vector<int32_t> encoded =
        chat != 0 ? tools.encode(tools.apply_chat_template({{"user", text}}, true), false, true)
                  : tools.encode(text, true, false);
    *count = encoded.size();
    for (size_t i = 0; i < encoded.size() && i < capacity; ++i) ids[i] = encoded[i];
  });
}

kvern_status kvern_submit(kvern_engine* engine, const int32_t* prompt_ids, size_t num_prompt_ids,
                          int32_t max_new_tokens, kvern_context** context) {
  return guarded([&] {
    require(engine != nullptr, "engine");
    require(prompt_ids != nullptr || num_prompt_ids == 0, "prompt_ids");
    require(context != nullptr, "context");
    kvern::Request request;
    request.prompt_ids.assign(prompt_ids, prompt_ids + num_prompt_ids);
    request.max_new_tokens = max_new_tokens;
    *context = new kvern_context{engine->engine.submit(request), "", ""};
  });
}

kvern_status kvern_next(kvern_context* context, int32_t* id, const char** text, int32_t* done) {
  return guarded([&] {
    require(context != nullptr, "context");
    require(id != nullptr, "id");
    require(text != nullptr, "text");
    require(done != nullptr, "done");
    kvern::Event event;
    const bool more = context->context.next(event);
    const bool finished = !more || event.kind == kvern::Event::Kind::kFinished;
    if (more && finished) context->reason = kvern::name_of(event.reason);
    context->text = std::move(event.text);
    *id = finished ? -1 : event.id;
    *text = context->text.c_str();
    *done = finished ? 1 : 0;
    if (event.reason == kvern::FinishReason::kFailed ||
        event.reason == kvern::FinishReason::kKvExhausted) {
      throw kvern::Error(event.code, event.message);
    }
  });
}

const char* kvern_finish_reason(kvern_context* context) {
  return context == nullptr ? "" : context->reason.c_str();
}

void kvern_cancel(kvern_context* context) {
  if (context != nullptr) guarded([&] { context->context.cancel(); });
}

void kvern_context_free(kvern_context* context) {
  delete context;
}
