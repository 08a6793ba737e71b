// SPDX-License-Identifier: Apache-2.0
// For LD_PRELOAD: makes allocations of a program fail, from main on. RLX_FAIL_ALLOCATION=K lets the
// K-th fail, counted from 1; RLX_FAIL_ALLOCATION=K+ that and all that follow.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* old, size_t size);

static atomic_long left = 0;  // allocations until one fails; 0: none ever does
static atomic_int for_ever = 0;
static int (*program_main)(int, char**, char**);

static int fails(void) {
  if (atomic_load(&left) <= 0) return 0;
  if (atomic_fetch_sub(&left, 1) != 1) return 0;
  if (atomic_load(&for_ever)) atomic_store(&left, 1);
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t size) {
  return fails() ? NULL : __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  return fails() ? NULL : __libc_calloc(count, size);
}

void* realloc(void* old, size_t size) {
  return fails() ? NULL : __libc_realloc(old, size);
}

static int counted_main(int argc, char** argv, char** environment) {
  const char* text = getenv("RLX_FAIL_ALLOCATION");
  if (text != NULL) {
    char* end = NULL;
    const long count = strtol(text, &end, 10);
    atomic_store(&for_ever, *end == '+');
    atomic_store(&left, count);
  }
  const int code = program_main(argc, argv, environment);
  atomic_store(&left, 0);
  return code;
}

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void* stack_end) {
  int (*start)(int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void),
               void (*)(void), void*) = NULL;
  *(void**)&start = dlsym(RTLD_NEXT, "__libc_start_main");
  program_main = main;
  return start(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}
