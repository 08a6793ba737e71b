# SPDX-License-Identifier: Apache-2.0
# rlx_soak runs where only a driver is: it links what rlxrun does. rlx_soak_plans writes the conformance cases as plans for it.
add_executable(rlx_soak soak/main.cpp soak/board.cpp soak/campaign.cpp soak/footprint.cpp soak/options.cpp soak/replayer.cpp
                        soak/report.cpp soak/worker.cpp)
target_link_libraries(rlx_soak PRIVATE rlx_rlxrun)
target_link_options(rlx_soak PRIVATE -Wl,--gc-sections)
if(NOT RLX_SANITIZE)
  target_link_options(rlx_soak PRIVATE -static-libstdc++ -static-libgcc)
endif()
if(RLX_BUILD_COMPILER)
  add_executable(rlx_soak_plans soak/write_plans.cpp)
  target_link_libraries(rlx_soak_plans PRIVATE rlx_case_tables)
  rlx_command_test(soak ${Python3_EXECUTABLE} tests/soak/soak_test.py ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  # Each case of kernels.py still gets the kernel that it is for. Needs NVRTC, and no device.
  rlx_command_test(soak_kernels ${Python3_EXECUTABLE} tests/soak/make.py ${PROJECT_BINARY_DIR}/soak-kernels --only kernels
                   --rlxc ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/rlxc --target cuda --arch sm_90a
                   --cache ${PROJECT_BINARY_DIR}/kernel-cache)
  set_tests_properties(soak_kernels PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED: CUDA kernels are not compiled")
endif()
