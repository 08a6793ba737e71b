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
endif()
