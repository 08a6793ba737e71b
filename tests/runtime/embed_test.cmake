# SPDX-License-Identifier: Apache-2.0
# The embedding example, built outside the tree against an installed runtime. Sanitized libraries need their own runtime
# library in the program, so that build leaves this test out.
if(NOT RLX_SANITIZE)
  add_executable(rlx_write_plan ${CMAKE_CURRENT_LIST_DIR}/../support/write_plan.cpp)
  target_link_libraries(rlx_write_plan PRIVATE rlx_test_plans)
  add_test(NAME embed COMMAND ${CMAKE_CURRENT_LIST_DIR}/embed_test.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}
                              $<TARGET_FILE:rlx_write_plan>)
endif()
