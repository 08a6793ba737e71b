// SPDX-License-Identifier: Apache-2.0
// A profiler that writes the ranges it is told of to standard error: "<name" where one begins, ">"
// where it ends. As NVTX_INJECTION64_PATH names it, and as libnvToolsExt.so.1.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef void (*Function)(void);
struct Callbacks {
  size_t struct_bytes;
  int (*function_table)(uint32_t module, Function*** table, unsigned* size);
};

int nvtxRangePushA(const char* name) {
  return fprintf(stderr, "<%s\n", name);
}

int nvtxRangePop(void) {
  return fprintf(stderr, ">\n");
}

int InitializeInjectionNvtx2(const void* (*export_table)(uint32_t table)) {
  const struct Callbacks* callbacks = export_table(1);
  Function** table = NULL;
  unsigned size = 0;
  if (export_table(2) != NULL || !callbacks->function_table(1, &table, &size) || size != 16 ||
      table[0] != NULL || table[size] != NULL || callbacks->function_table(2, &table, &size))
    return 0;
  *table[9] = (Function)nvtxRangePushA;
  *table[11] = (Function)nvtxRangePop;
  return 1;
}
