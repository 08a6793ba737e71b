// SPDX-License-Identifier: Apache-2.0
// A conversation with a language model, in C over rlx.h and rlx_text.h alone: each line of standard
// input is a message, each reply comes as it is made. The caches can be saved to a file and taken
// from there.
#include <rlx.h>
#include <rlx_text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  kMaxEntries = 16,
  kMaxMessages = 256,
  kLineBytes = 65536,
  kRowAxis = 2,  // of a cache [1, groups, context, width]
  // Entries of no more tokens than this compute a row with other bits than larger ones do. Prompts
  // go through larger ones only, so that a reply does not depend on what the caches kept.
  kFewTokens = 8
};

typedef struct {
  rlx_plan* plan;
  rlx_device* device;
  rlx_session* session;
  rlx_text* text;
  uint32_t decode;                // the entry of one token
  uint32_t prompts[kMaxEntries];  // entries of several, most tokens first
  uint32_t sizes[kMaxEntries];    // their tokens
  uint32_t prompt_count;
  uint32_t context;
  int32_t* held;  // tokens whose rows the caches hold
  uint32_t held_count;
  uint32_t prompt_rows;  // how many of the first were made by prompts
} model;

static int fail(const char* what, const char* why) {
  fprintf(stderr, "chat: %s: %s\n", what, why);
  return 2;
}
#define TRY(call) \
  if ((call) != RLX_OK) return fail(#call, rlx_last_error())
#define TRY_TEXT(call) \
  if ((call) != RLX_OK) return fail(#call, rlx_text_last_error())

static void add_prompt_entry(model* m, uint32_t entry, uint32_t tokens) {
  uint32_t place = m->prompt_count++;
  for (; place > 0 && m->sizes[place - 1] < tokens; --place) {
    m->sizes[place] = m->sizes[place - 1];
    m->prompts[place] = m->prompts[place - 1];
  }
  m->sizes[place] = tokens;
  m->prompts[place] = entry;
}

// "decode" takes one token, "prefill_32" takes 32.
static int find_entries(model* m) {
  TRY(rlx_plan_find_entry(m->plan, "decode", &m->decode));
  rlx_plan_info plan = RLX_INIT(rlx_plan_info);
  TRY(rlx_plan_get_info(m->plan, &plan));
  for (uint32_t i = 0; i < plan.entry_count && m->prompt_count < kMaxEntries; ++i) {
    rlx_entry_info entry = RLX_INIT(rlx_entry_info);
    unsigned tokens = 0;
    TRY(rlx_plan_get_entry(m->plan, i, &entry));
    if (sscanf(entry.name, "prefill_%u", &tokens) == 1 && tokens > kFewTokens)
      add_prompt_entry(m, i, tokens);
  }
  if (m->prompt_count == 0) return fail("plan", "it has no entry for prompts: rlxc --chunks 1,32");
  return 0;
}

static int open_model(model* m, const char* plan, const char* device) {
  TRY(rlx_plan_open_file(plan, NULL, &m->plan));
  TRY_TEXT(rlx_text_open(m->plan, &m->text));
  rlx_text_info info = RLX_INIT(rlx_text_info);
  TRY_TEXT(rlx_text_get_info(m->text, &info));
  m->context = info.context_tokens;
  m->held = calloc(m->context, sizeof *m->held);
  if (m->held == NULL) return fail("context", "out of memory");
  TRY(rlx_device_open(device, &m->device));
  TRY(rlx_session_create(m->plan, m->device, NULL, &m->session));
  return find_entries(m);
}

static void close_model(model* m) {
  rlx_session_close(m->session);
  rlx_device_close(m->device);
  rlx_text_close(m->text);
  rlx_plan_close(m->plan);
  free(m->held);
}

static rlx_status set(model* m, uint32_t entry, const char* name, const int32_t* ids, uint32_t rank,
                      uint64_t count) {
  rlx_tensor tensor = RLX_INIT(rlx_tensor);
  tensor.data = ids;
  tensor.size_bytes = count * sizeof *ids;
  tensor.dtype = RLX_I32;
  tensor.rank = rank;
  tensor.dims[0] = tensor.dims[1] = 1;
  if (rank > 0) tensor.dims[rank - 1] = count;
  return rlx_session_set_input(m->session, entry, name, &tensor);
}

// Computes `count` tokens of a run of `size` from `position` on; the others are padding, whose rows
// the next run overwrites.
static int run(model* m, uint32_t entry, const int32_t* ids, uint32_t size, int32_t position,
               int32_t count) {
  const int32_t last = count - 1;
  TRY(set(m, entry, "ids", ids, 2, size));
  TRY(set(m, entry, "position", &position, 0, 1));
  TRY(set(m, entry, "count", &count, 0, 1));
  TRY(set(m, entry, "last", &last, 1, 1));
  TRY(rlx_session_run(m->session, entry));
  return 0;
}

// Brings the caches to hold the prompt: rows that earlier prompts made stay where the tokens are
// the same; `next` is what follows.
static int read_prompt(model* m, const int32_t* ids, uint32_t count, int32_t* next) {
  if (count > m->context) {
    fprintf(stderr, "chat: the conversation has %u tokens, the context holds %u\n", count,
            m->context);
    return 2;
  }
  uint32_t at = 0;
  while (at < m->prompt_rows && at + 1 < count && m->held[at] == ids[at]) ++at;
  uint32_t entry = m->decode;
  int32_t* padded = calloc(m->sizes[0], sizeof *padded);
  int result = padded == NULL ? fail("prompt", "out of memory") : 0;
  while (result == 0 && at < count) {
    uint32_t i = 0;
    while (i + 1 < m->prompt_count && m->sizes[i] > count - at) ++i;
    const uint32_t size = m->sizes[i];
    if (at + size > m->context) at = m->context - size;  // computes a few rows again
    const uint32_t used = size < count - at ? size : count - at;
    memset(padded, 0, size * sizeof *padded);
    memcpy(padded, ids + at, used * sizeof *ids);
    entry = m->prompts[i];
    result = run(m, entry, padded, size, (int32_t)at, (int32_t)used);
    at += used;
  }
  free(padded);
  if (result != 0) return result;
  memcpy(m->held, ids, count * sizeof *ids);
  m->held_count = m->prompt_rows = count;
  TRY(rlx_session_read_output(m->session, entry, "next", next, sizeof *next));
  return 0;
}

// The likeliest tokens until one ends the reply; the text goes to standard output and to `reply`.
static int speak(model* m, int32_t id, uint32_t most, char* reply, size_t capacity) {
  rlx_text_stream* stream = NULL;
  const char* piece = NULL;
  size_t bytes = 0, length = 0;
  TRY_TEXT(rlx_text_stream_create(m->text, 0, &stream));
  int result = 0;
  for (uint32_t i = 0; i < most && !rlx_text_is_stop(m->text, id); ++i) {
    if (m->held_count == m->context) {
      result = fail("reply", "the context is full");
      break;
    }
    if (rlx_text_stream_put(stream, id, &piece, &bytes) != RLX_OK) bytes = 0;
    if (length + bytes < capacity) memcpy(reply + length, piece, bytes), length += bytes;
    fwrite(piece, 1, bytes, stdout);
    fflush(stdout);
    result = run(m, m->decode, &id, 1, (int32_t)m->held_count, 1);
    if (result != 0) break;
    m->held[m->held_count++] = id;
    if (rlx_session_read_output(m->session, m->decode, "next", &id, sizeof id) != RLX_OK) {
      result = fail("reply", rlx_last_error());
      break;
    }
  }
  printf("\n");
  reply[length] = '\0';
  rlx_text_stream_close(stream);
  return result;
}

// One line in, one reply out. Messages stay until the program ends.
static int answer(model* m, rlx_text_message* messages, size_t* count, const char* line,
                  uint32_t most) {
  static char reply[kLineBytes];
  rlx_text_chat_options options = RLX_INIT(rlx_text_chat_options);
  options.add_reply_start = 1;
  messages[(*count)++] = (rlx_text_message){"user", strdup(line), strlen(line)};
  size_t id_count = 0;
  int32_t first = 0;
  TRY_TEXT(rlx_text_chat(m->text, messages, *count, &options, NULL, 0, &id_count));
  int32_t* ids = malloc(id_count * sizeof *ids);
  if (ids == NULL) return fail("message", "out of memory");
  if (rlx_text_chat(m->text, messages, *count, &options, ids, id_count, &id_count) != RLX_OK) {
    free(ids);
    return fail("message", rlx_text_last_error());
  }
  const int result = read_prompt(m, ids, (uint32_t)id_count, &first);
  free(ids);
  if (result != 0) return result;
  if (speak(m, first, most, reply, sizeof reply) != 0) return 2;
  messages[(*count)++] = (rlx_text_message){"assistant", strdup(reply), strlen(reply)};
  return 0;
}

// The caches' file: how many tokens, how many of them of prompts, their ids, and the rows of each
// state.
static int copy_rows(model* m, FILE* file, int saves) {
  for (uint32_t i = 0; i < rlx_plan_state_count(m->plan); ++i) {
    rlx_tensor_info info = RLX_INIT(rlx_tensor_info);
    rlx_state_range range = RLX_INIT(rlx_state_range);
    rlx_tensor tensor = RLX_INIT(rlx_tensor);
    TRY(rlx_plan_get_state(m->plan, i, &info));
    if (info.rank != 4) continue;  // no cache
    range.axis = kRowAxis;
    range.count = m->held_count;
    memcpy(tensor.dims, info.dims, sizeof tensor.dims);
    tensor.dims[kRowAxis] = range.count;
    tensor.dtype = info.dtype;
    tensor.rank = info.rank;
    tensor.size_bytes = info.size_bytes / info.dims[kRowAxis] * range.count;
    void* rows = malloc(tensor.size_bytes + 1);
    if (rows == NULL) return fail("caches", "out of memory");
    tensor.data = rows;
    rlx_status status = RLX_OK;
    if (saves)
      status = rlx_session_read_state(m->session, info.name, &range, rows, tensor.size_bytes);
    const int whole = saves ? fwrite(rows, 1, tensor.size_bytes, file) == tensor.size_bytes
                            : fread(rows, 1, tensor.size_bytes, file) == tensor.size_bytes;
    if (!saves && whole) status = rlx_session_write_state(m->session, info.name, &range, &tensor);
    free(rows);
    if (status != RLX_OK) return fail("caches", rlx_last_error());
    if (!whole) return fail("caches", "the file is too short or cannot be written");
  }
  return 0;
}

static int save(model* m, const char* path) {
  FILE* file = fopen(path, "wb");
  if (file == NULL) return fail(path, "cannot be created");
  const uint32_t counts[2] = {m->held_count, m->prompt_rows};
  fwrite(counts, sizeof counts, 1, file);
  fwrite(m->held, sizeof *m->held, m->held_count, file);
  const int result = m->held_count > 0 ? copy_rows(m, file, 1) : 0;
  return fclose(file) == 0 ? result : fail(path, "cannot be written");
}

static int load(model* m, const char* path) {
  uint32_t counts[2] = {0, 0};
  FILE* file = fopen(path, "rb");
  if (file == NULL) return fail(path, "cannot be opened");
  int result = 0;
  if (fread(counts, sizeof counts, 1, file) != 1 || counts[0] == 0 || counts[0] > m->context ||
      counts[1] > counts[0] || fread(m->held, sizeof *m->held, counts[0], file) != counts[0]) {
    result = fail(path, "holds no caches of this model");
  } else {
    m->held_count = counts[0];
    result = copy_rows(m, file, 0);
    if (result == 0 && fgetc(file) != EOF) result = fail(path, "holds caches of another model");
    m->prompt_rows = counts[1];
  }
  fclose(file);
  return result;
}

typedef struct {
  const char *device, *system, *load, *save;
  uint32_t tokens;
} options;

static int parse(int argc, char** argv, options* chosen) {
  for (int i = 2; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--device") == 0)
      chosen->device = argv[i + 1];
    else if (strcmp(argv[i], "--system") == 0)
      chosen->system = argv[i + 1];
    else if (strcmp(argv[i], "--load") == 0)
      chosen->load = argv[i + 1];
    else if (strcmp(argv[i], "--save") == 0)
      chosen->save = argv[i + 1];
    else if (strcmp(argv[i], "--tokens") == 0)
      chosen->tokens = (uint32_t)strtoul(argv[i + 1], NULL, 10);
    else
      return 0;
  }
  return argc >= 2 && argc % 2 == 0;
}

static int converse(model* m, const options* chosen) {
  static char line[kLineBytes];
  static rlx_text_message messages[kMaxMessages];
  size_t count = 0;
  int result = 0;
  if (chosen->system != NULL)
    messages[count++] = (rlx_text_message){"system", chosen->system, strlen(chosen->system)};
  while (result == 0 && count + 2 <= kMaxMessages && fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    if (line[0] != '\0') result = answer(m, messages, &count, line, chosen->tokens);
  }
  for (size_t i = chosen->system != NULL; i < count; ++i) free((void*)messages[i].content);
  return result;
}

int main(int argc, char** argv) {
  options chosen = {.device = "vulkan", .tokens = 256};
  if (!parse(argc, argv, &chosen)) {
    fprintf(
        stderr,
        "usage: chat PLAN [--device ID] [--system TEXT] [--tokens N] [--load FILE] [--save FILE]\n"
        "Each line of standard input is a message.\n");
    return 1;
  }
  model m = {0};
  int result = open_model(&m, argv[1], chosen.device);
  if (result == 0 && chosen.load != NULL) result = load(&m, chosen.load);
  if (result == 0) result = converse(&m, &chosen);
  if (result == 0 && chosen.save != NULL) result = save(&m, chosen.save);
  close_model(&m);
  return result;
}
