# SPDX-License-Identifier: Apache-2.0
# Hostile plans: the mutator, its seeds, and guarded runs on lavapipe. The mutator needs nothing but the C and C++ libraries
# where it runs (and a Vulkan loader for --vulkan), so that campaigns can go where there are cores.
find_package(CLI11 REQUIRED)
set(reflected ${PROJECT_BINARY_DIR}/generated/reflected)
foreach(name plan debug)
  add_custom_command(
    OUTPUT ${reflected}/${name}_bfbs_generated.h
    COMMAND ${FLATC} --cpp --bfbs-gen-embed -o ${reflected} ${PROJECT_SOURCE_DIR}/schema/${name}.fbs
    DEPENDS ${PROJECT_SOURCE_DIR}/schema/${name}.fbs
    COMMENT "flatc ${name}.fbs, as data")
endforeach()
add_library(rlx_guards STATIC support/guard_memory.cpp support/guarded_device.cpp support/guarded_run.cpp)
target_link_libraries(rlx_guards PUBLIC rlx_runtime)
file(GLOB mutator CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/plans/*.cpp)
add_executable(rlx_mutate_plans fuzz/mutate_plans.cpp ${mutator} runtime/fixture_plans.cpp runtime/gemm_fixtures.cpp
               ${reflected}/plan_bfbs_generated.h ${reflected}/debug_bfbs_generated.h)
target_include_directories(rlx_mutate_plans SYSTEM PRIVATE ${reflected})
target_link_libraries(rlx_mutate_plans PRIVATE rlx_guards rlx_test_plans rlx_inspect CLI11::CLI11)
