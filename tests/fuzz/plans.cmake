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
add_library(rlx_plan_mutator STATIC ${mutator} runtime/free_fixtures.cpp runtime/gemm_fixtures.cpp
            ${reflected}/plan_bfbs_generated.h ${reflected}/debug_bfbs_generated.h)
target_include_directories(rlx_plan_mutator SYSTEM PUBLIC ${reflected})
target_link_libraries(rlx_plan_mutator PUBLIC rlx_guards rlx_test_plans rlx_inspect)
rlx_test(mutate rlx_plan_mutator)
add_executable(rlx_mutate_plans fuzz/mutate_plans.cpp)
target_link_libraries(rlx_mutate_plans PRIVATE rlx_plan_mutator CLI11::CLI11)
target_link_options(rlx_mutate_plans PRIVATE -static-libstdc++ -static-libgcc)
if(RLX_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_link_options(rlx_mutate_plans PRIVATE -static-libasan -static-libubsan)
endif()

# Seeds are small plans of the compiler's own. What CI runs is a slice; README tells of campaigns.
add_test(NAME plan_seeds COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/plans/make_seeds $<TARGET_FILE:rlxc>
         ${PROJECT_BINARY_DIR}/plan-seeds)
set_tests_properties(plan_seeds PROPERTIES FIXTURES_SETUP plan_seeds)
set(RLX_PLAN_MUTANTS 100000 CACHE STRING "Mutants of plans that a test run judges")
add_test(NAME mutate_plans COMMAND rlx_mutate_plans ${PROJECT_BINARY_DIR}/plan-seeds --count ${RLX_PLAN_MUTANTS}
         --keep ${PROJECT_BINARY_DIR}/bad-mutants)
add_test(NAME mutate_plans_guarded COMMAND rlx_mutate_plans ${PROJECT_BINARY_DIR}/plan-seeds --vulkan --seed 2
         --count 5000 --keep ${PROJECT_BINARY_DIR}/bad-mutants-guarded)
set_tests_properties(mutate_plans mutate_plans_guarded PROPERTIES FIXTURES_REQUIRED plan_seeds)

rlx_test(guards rlx_test_sketches rlx_guards)
add_executable(rlx_guard_plans fuzz/guard_plans.cpp)
target_link_libraries(rlx_guard_plans PRIVATE rlx_case_tables rlx_guards CLI11::CLI11)
target_compile_definitions(rlx_guard_plans PRIVATE RLX_BUILD_DIR="${PROJECT_BINARY_DIR}")
add_test(NAME guard_plans COMMAND rlx_guard_plans WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(guards PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED: .*All tests passed")
set_tests_properties(mutate_plans_guarded guard_plans PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED: .* 0 failed")
