// SPDX-License-Identifier: Apache-2.0
// A C program that opens a plan's file, says what it needs, runs its first entry once and
// prints the outputs' beginnings.
#include <inttypes.h>
#include <rlx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kShownElements = 8 };

static int fail(const char* what) {
  fprintf(stderr, "embed: %s: %s\n", what, rlx_last_error());
  return 1;
}

// Reads NAME=FILE arguments: the file that belongs to an input, or NULL.
static const char* file_of(const char* name, int count, char** arguments) {
  const size_t length = strlen(name);
  for (int i = 0; i < count; ++i) {
    if (strncmp(arguments[i], name, length) == 0 && arguments[i][length] == '=')
      return arguments[i] + length + 1;
  }
  return NULL;
}

// Fills `bytes` from a raw file of exactly that size.
static int read_raw(const char* path, void* bytes, size_t size) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) return 0;
  const int whole = fread(bytes, 1, size, file) == size && fgetc(file) == EOF;
  fclose(file);
  return whole;
}

static int set_inputs(const rlx_plan* plan, rlx_session* session, uint32_t count,
                      int argument_count, char** arguments) {
  for (uint32_t i = 0; i < count; ++i) {
    rlx_tensor_info info = RLX_INIT(rlx_tensor_info);
    if (rlx_plan_get_input(plan, 0, i, &info) != RLX_OK) return fail("input");
    const char* path = file_of(info.name, argument_count, arguments);
    if (path == NULL) {
      fprintf(stderr,
              "embed: input %s needs an argument %s=FILE with %" PRIu64 " raw bytes of %s\n",
              info.name, info.name, info.size_bytes, rlx_dtype_name(info.dtype));
      return 1;
    }
    void* bytes = malloc(info.size_bytes + 1);
    rlx_tensor tensor = RLX_INIT(rlx_tensor);
    tensor.data = bytes;
    tensor.size_bytes = info.size_bytes;
    tensor.dtype = info.dtype;
    tensor.rank = info.rank;
    memcpy(tensor.dims, info.dims, sizeof tensor.dims);
    int failed = 0;
    if (bytes == NULL || !read_raw(path, bytes, info.size_bytes)) {
      fprintf(stderr, "embed: %s does not hold exactly %" PRIu64 " bytes\n", path, info.size_bytes);
      failed = 1;
    } else if (rlx_session_set_input(session, 0, info.name, &tensor) != RLX_OK) {
      failed = fail("input");
    }
    free(bytes);
    if (failed) return 1;
  }
  return 0;
}

static int print_outputs(const rlx_plan* plan, rlx_session* session, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    rlx_tensor_info info = RLX_INIT(rlx_tensor_info);
    if (rlx_plan_get_output(plan, 0, i, &info) != RLX_OK) return fail("output");
    unsigned char* bytes = malloc(info.size_bytes + 1);
    if (bytes == NULL ||
        rlx_session_read_output(session, 0, info.name, bytes, info.size_bytes) != RLX_OK) {
      free(bytes);
      return fail("output");
    }
    printf("%s:", info.name);
    const uint64_t elements =
        info.dtype == RLX_F32 ? info.size_bytes / sizeof(float) : info.size_bytes;
    for (uint64_t e = 0; e < elements && e < kShownElements; ++e) {
      float number = bytes[e];
      if (info.dtype == RLX_F32) memcpy(&number, bytes + e * sizeof number, sizeof number);
      printf(" %g", number);
    }
    printf(info.dtype == RLX_F32 ? "\n" : " (bytes of %s)\n", rlx_dtype_name(info.dtype));
    free(bytes);
  }
  return 0;
}

static int run(const rlx_plan* plan, rlx_session* session, int argument_count, char** arguments) {
  rlx_entry_info entry = RLX_INIT(rlx_entry_info);
  if (rlx_plan_get_entry(plan, 0, &entry) != RLX_OK) return fail("entry");
  if (set_inputs(plan, session, entry.input_count, argument_count, arguments) != 0) return 1;
  if (rlx_session_run(session, 0) != RLX_OK) return fail("run");
  return print_outputs(plan, session, entry.output_count);
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr,
            "usage: embed PLAN DEVICE [INPUT=RAW_FILE]...   (DEVICE: vulkan, vulkan:0, null)\n");
    return 1;
  }
  rlx_plan* plan = NULL;
  rlx_device* device = NULL;
  rlx_session* session = NULL;
  int result = 0;
  if (rlx_plan_open_file(argv[1], NULL, &plan) != RLX_OK) {
    result = fail("plan");
  } else if (rlx_device_open(argv[2], &device) != RLX_OK) {
    result = fail("device");
  } else {
    rlx_plan_info info = RLX_INIT(rlx_plan_info);
    if (rlx_plan_get_info(plan, &info) == RLX_OK) {
      printf("%s: weights %" PRIu64 ", state %" PRIu64 ", arena %" PRIu64 ", io %" PRIu64
             " bytes on the device\n",
             info.name, info.weights_bytes, info.state_bytes, info.arena_bytes, info.io_bytes);
    }
    result = rlx_session_create(plan, device, NULL, &session) != RLX_OK
                 ? fail("session")
                 : run(plan, session, argc - 3, argv + 3);
  }
  rlx_session_close(session);
  rlx_device_close(device);
  rlx_plan_close(plan);
  return result;
}
