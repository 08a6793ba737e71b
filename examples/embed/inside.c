// SPDX-License-Identifier: Apache-2.0
// A program that holds its plan: opens it from its own memory, and says what it needs on a device.
#include <inttypes.h>
#include <stdio.h>

#include "digits.h"

int main(int argc, char** argv) {
  rlx_plan* plan = NULL;
  rlx_device* device = NULL;
  rlx_session* session = NULL;
  rlx_entry_info entry = RLX_INIT(rlx_entry_info);
  rlx_program_info program = RLX_INIT(rlx_program_info);
  const char* id = argc > 1 ? argv[1] : "vulkan";
  if (digits_open(&plan) || rlx_device_open(id, &device) ||
      rlx_session_create(plan, device, NULL, &session) ||
      rlx_plan_get_entry(plan, digits_entry_main, &entry) ||
      rlx_session_get_program(session, digits_entry_main, &program)) {
    fprintf(stderr, "inside: %s\n", rlx_last_error());
    return 1;
  }
  printf("%zu bytes of plan inside: entry %s of %" PRIu32 " steps, arena %" PRIu64 " bytes\n",
         digits_plan_bytes, entry.name, program.step_count, program.arena_bytes);
  rlx_session_close(session);
  rlx_device_close(device);
  rlx_plan_close(plan);
  return 0;
}
