/* Kvern from C. Every call returns 0 or a kvern_status; kvern_last_error() then says what went
 * wrong, in the calling thread. Nothing throws. Strings are UTF-8 and owned by Kvern until the next
 * call on the same object. */
#ifndef KVERN_C_API_H_
#define KVERN_C_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvern_status {
  KVERN_OK = 0,
  KVERN_INVALID_ARGUMENT = 1,
  KVERN_INVALID_MODEL = 2,
  KVERN_INVALID_PLAN = 3,
  KVERN_INVALID_REQUEST = 4,
  KVERN_UNSUPPORTED = 5,
  KVERN_NOT_FOUND = 6,
  KVERN_IO = 7,
  KVERN_OUT_OF_MEMORY = 8,
  KVERN_DEVICE = 9,
  KVERN_INTERNAL = 10
} kvern_status;

typedef struct kvern_engine kvern_engine;
typedef struct kvern_context kvern_context;

/* The message of the last failed call in this thread; "" before any. */
const char* kvern_last_error(void);
const char* kvern_version(void);

/* Compiles a model file into a plan with the default options. */
kvern_status kvern_build(const char* model_path, const char* plan_path);

/* num_threads: 0 = one per core. *engine is set on success only and freed by kvern_engine_free,
 * which must come after every context of the engine was freed. */
kvern_status kvern_engine_load(const char* plan_path, int32_t num_threads, kvern_engine** engine);
void kvern_engine_free(kvern_engine* engine);

/* Ids of a text. Writes at most `capacity` of them and always the full count to *count; capacity 0
 * asks for the count alone. chat != 0: the text is one user message put through the chat template.
 */
kvern_status kvern_encode(kvern_engine* engine, const char* text, int32_t chat, int32_t* ids,
                          size_t capacity, size_t* count);

/* Starts a greedy answer of at most max_new_tokens (0: as the context length allows). */
kvern_status kvern_submit(kvern_engine* engine, const int32_t* prompt_ids, size_t num_prompt_ids,
                          int32_t max_new_tokens, kvern_context** context);

/* Waits for the next token. *done becomes 1 when the answer ended: *id is then -1 and *text what
 * was still held back. *text may be "" while a character is incomplete. An answer that failed, or
 * found no KV page, ends with its status and message. */
kvern_status kvern_next(kvern_context* context, int32_t* id, const char** text, int32_t* done);
/* "stop", "length", "cancelled", …; "" while it runs. */
const char* kvern_finish_reason(kvern_context* context);
void kvern_cancel(kvern_context* context);
void kvern_context_free(kvern_context* context);

#ifdef __cplusplus
}
#endif

#endif /* KVERN_C_API_H_ */
