# SPDX-License-Identifier: Apache-2.0
# Libraries in the place of drivers, which fail where a test tells them to, and the tests on them.
function(rlx_stand_in name)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/faults/stand_in/)
  add_library(${name} MODULE ${ARGN} ${CMAKE_CURRENT_SOURCE_DIR}/faults/stand_in/faults.cpp)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE -fvisibility=hidden)
  target_link_libraries(${name} PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
  add_dependencies(rlx_tests_faults ${name} rlxrun)
endfunction()

rlx_test(faults rlx_test_sketches)
target_sources(rlx_tests_faults PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/device/device_fixture.cpp)
rlx_stand_in(rlx_vulkan_stand_in vulkan.cpp)
rlx_stand_in(rlx_cuda_stand_in cuda_hooks.cpp fake_cuda.cpp fake_graphs.cpp fake_objects.cpp)
# By this name cuBLASLt is looked for, and found here where the library stands for the driver already.
target_link_options(rlx_cuda_stand_in PRIVATE -Wl,-soname,libcublasLt.so.13)
target_compile_definitions(rlx_tests_faults PRIVATE RLX_VULKAN_STAND_IN="$<TARGET_FILE:rlx_vulkan_stand_in>"
                                                    RLX_CUDA_STAND_IN="$<TARGET_FILE:rlx_cuda_stand_in>")
add_test(NAME growth COMMAND rlx_tests_faults [growth] WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
