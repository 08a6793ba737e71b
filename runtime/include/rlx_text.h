// SPDX-License-Identifier: Apache-2.0
// rlx_text: text for language models, above rlx.h: a plan's tokenizer, its chat templates, and the
// choice of the next token. C11 and C++; on the host alone, no device is touched.
//
// Errors. As in rlx.h: rlx_status, and rlx_text_last_error() with a sentence for this thread. A
// failed call leaves its out-parameters untouched (handles are set to NULL).
//
// Text is UTF-8 of a given length and may hold any byte, zero too. What is no UTF-8 is encoded as
// U+FFFD, as Python's decoder with errors="replace" has it.
//
// Threads. An rlx_text may be used by any number of threads at once; streams and samplers by one at
// a time.
#ifndef RLX_TEXT_H
#define RLX_TEXT_H

#include "rlx.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rlx_text rlx_text;
typedef struct rlx_text_stream rlx_text_stream;
typedef struct rlx_text_sampler rlx_text_sampler;

// Sentence of this thread's last failed call of this header, "" if the last call succeeded.
RLX_API const char* rlx_text_last_error(void);

// ---- A plan's text ----

// Reads and checks the plan's text section: RLX_INVALID_ARGUMENT where it has none,
// RLX_INVALID_PLAN where its content does not hold together. The plan may be closed afterwards.
RLX_API rlx_status rlx_text_open(const rlx_plan* plan, rlx_text** text);
// The same from the section's bytes, which are copied.
RLX_API rlx_status rlx_text_open_memory(const void* data, size_t size_bytes, rlx_text** text);
// Streams and samplers keep what they need of it: close in any order.
RLX_API void rlx_text_close(rlx_text* text);

typedef struct rlx_text_info {
  size_t struct_size;
  uint32_t token_count;     // a model may have more rows of logits: padding, never sampled
  uint32_t context_tokens;  // rows of the model's caches
  int32_t begin;            // ids, -1: none
  int32_t end;
  uint32_t add_begin;  // 1: encoding with RLX_TEXT_ADD_SPECIAL starts with `begin`
  uint32_t add_end;
  uint32_t template_count;
  uint32_t stop_count;
} rlx_text_info;

RLX_API rlx_status rlx_text_get_info(const rlx_text* text, rlx_text_info* info);
// 1 if the token ends a reply: a set, of which the end of text is one.
RLX_API uint32_t rlx_text_is_stop(const rlx_text* text, int32_t id);

// ---- Tokens ----

enum {
  RLX_TEXT_ADD_SPECIAL = 1,   // the tokens that the model wants at the start and the end
  RLX_TEXT_PARSE_SPECIAL = 2  // names of control tokens in the text become those tokens; without,
                              // they are text as any other: what a user typed
};

// Ids of a text. `ids` has room for `capacity`; `count` is how many the text has. Where they are
// more than `capacity`, the call fails with RLX_INVALID_ARGUMENT, has written `count` and no id;
// `ids` NULL with `capacity` 0 asks for the count alone, and succeeds.
RLX_API rlx_status rlx_text_encode(const rlx_text* text, const char* utf8, size_t size_bytes,
                                   uint32_t flags, int32_t* ids, size_t capacity, size_t* count);

// A token's bytes as they stand in text: part of a character, perhaps. They live as long as the
// text.
RLX_API rlx_status rlx_text_token(const rlx_text* text, int32_t id, const char** bytes,
                                  size_t* size_bytes);

// Turns tokens into text as they come. Bytes of a character that is not complete are held back;
// those that can never be one come out as U+FFFD. Control tokens give no text, unless
// `show_control` is 1.
RLX_API rlx_status rlx_text_stream_create(const rlx_text* text, uint32_t show_control,
                                          rlx_text_stream** stream);
RLX_API void rlx_text_stream_close(rlx_text_stream* stream);
// What can be shown after this token, UTF-8; valid until the stream's next call.
RLX_API rlx_status rlx_text_stream_put(rlx_text_stream* stream, int32_t id, const char** utf8,
                                       size_t* size_bytes);
// What was held back; the stream begins anew.
RLX_API rlx_status rlx_text_stream_end(rlx_text_stream* stream, const char** utf8,
                                       size_t* size_bytes);

// ---- Conversations ----

typedef struct rlx_text_message {
  const char* role;  // "system", "user", "assistant"; zero-terminated
  const char* content;
  size_t content_bytes;
} rlx_text_message;

typedef struct rlx_text_chat_options {
  size_t struct_size;
  const char* template_name;  // NULL: the model's own
  uint32_t add_reply_start;   // 1: ends with what begins the assistant's reply
  uint32_t reserved;
  const char* variables_json;  // NULL, or an object whose members the template sees by name:
                               // {"enable_thinking": false}. "messages" among them stands for
                               // all messages (calls of tools): then message_count is 0
  int64_t now_unix_seconds;    // what strftime_now tells (UTC); 0: 1970
} rlx_text_chat_options;

// The ids of a conversation, rendered by the template. Control tokens come from the template's own
// text alone: a name of one in a message's content stays text. A template is code of a stranger:
// its steps and its output are bounded, and its raise_exception is this call's error. `ids`,
// `capacity` and `count` as in rlx_text_encode.
RLX_API rlx_status rlx_text_chat(const rlx_text* text, const rlx_text_message* messages,
                                 size_t message_count, const rlx_text_chat_options* options,
                                 int32_t* ids, size_t capacity, size_t* count);
// The rendered text, for people; `utf8`, `capacity` and `size_bytes` as `ids`, `capacity` and
// `count`.
RLX_API rlx_status rlx_text_render(const rlx_text* text, const rlx_text_message* messages,
                                   size_t message_count, const rlx_text_chat_options* options,
                                   char* utf8, size_t capacity, size_t* size_bytes);

// ---- The next token ----

typedef enum rlx_text_order {
  // Penalties, temperature, then the cuts: top_k, top_p, min_p, typical_p: Hugging Face's order.
  RLX_TEXT_TEMPERATURE_FIRST = 0,
  // Penalties, the cuts: top_k, typical_p, top_p, min_p, then temperature: llama.cpp's order.
  RLX_TEXT_TEMPERATURE_LAST = 1
} rlx_text_order;

// All zeros: greedy, the largest logit, the least id among equals.
typedef struct rlx_text_sampling {
  size_t struct_size;
  float temperature;         // 0: greedy
  uint32_t top_k;            // keep the k largest; 0: all
  float top_p;               // keep the least set of that probability; 0 or 1: all
  float min_p;               // keep what has at least this share of the largest probability; 0: all
  float typical_p;           // locally typical sampling; 0 or 1: all
  float repetition_penalty;  // divides positive logits, multiplies negative ones; 0 or 1: none
  float presence_penalty;    // subtracted once from a token seen among the last
  float frequency_penalty;   // subtracted as often as the token was seen
  uint32_t penalty_tokens;   // how many of the last tokens count; not 0 where there is a penalty
  rlx_text_order order;
  uint64_t seed;  // draw n depends on seed and n alone (Philox4x32-10): the same on every machine
} rlx_text_sampling;

RLX_API rlx_status rlx_text_sampler_create(const rlx_text* text, const rlx_text_sampling* sampling,
                                           rlx_text_sampler** sampler);
RLX_API void rlx_text_sampler_close(rlx_text_sampler* sampler);
// Tells of a token of the prompt, or one chosen elsewhere, for the penalties.
RLX_API rlx_status rlx_text_sampler_accept(rlx_text_sampler* sampler, int32_t id);
// Chooses from `count` logits (at least the text's tokens; those behind are padding), and accepts
// the choice. NaN counts as the smallest. Allocates nothing after the first call.
RLX_API rlx_status rlx_text_sampler_choose(rlx_text_sampler* sampler, const float* logits,
                                           size_t count, int32_t* id);
// Forgets all tokens; the next draw is draw `draw` of the seed.
RLX_API rlx_status rlx_text_sampler_reset(rlx_text_sampler* sampler, uint64_t draw);

#ifdef __cplusplus
}
#endif

#endif
