# SPDX-License-Identifier: Apache-2.0
# Hostile files: one fuzz target per format of the importer, one for text sections and one for chat templates, a replay of what
# they once broke, and mutants of GGUF headers.
# The replay is built with everything else; the targets need clang and RLX_FUZZERS (preset "fuzz").
add_library(rlx_fuzz_targets STATIC fuzz/import_targets.cpp)
target_link_libraries(rlx_fuzz_targets PUBLIC rlx_import rlx_passes rlx_text)
add_executable(rlx_replay_import fuzz/replay_import.cpp)
target_link_libraries(rlx_replay_import PRIVATE rlx_fuzz_targets)
add_test(NAME replay_import COMMAND rlx_replay_import WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
add_executable(rlx_mutate_gguf fuzz/mutate_gguf.cpp)
target_link_libraries(rlx_mutate_gguf PRIVATE rlx_import)
add_test(NAME mutate_gguf COMMAND rlx_mutate_gguf)
if(NOT RLX_FUZZERS)
  return()
endif()

set(RLX_FUZZ_SECONDS 8 CACHE STRING "Seconds that a fuzz test runs a format")
set(seeds ${PROJECT_BINARY_DIR}/seeds)
add_executable(rlx_fuzz_seeds fuzz/seeds.cpp)
target_link_libraries(rlx_fuzz_seeds PRIVATE rlx_import rlx_test_plans rlx_text)
add_test(NAME fuzz_seeds
         COMMAND rlx_fuzz_seeds ${seeds} /usr/share/libonnx-testdata/data/node /usr/share/libonnx-testdata/data/simple
                 ${PROJECT_SOURCE_DIR}/examples ${PROJECT_SOURCE_DIR}/tests/fuzz/graphs
                 ${PROJECT_SOURCE_DIR}/tests/text/data/templates.json)
set_tests_properties(fuzz_seeds PROPERTIES FIXTURES_SETUP fuzz_seeds)
add_custom_target(rlx_fuzzers DEPENDS rlx_fuzz_seeds rlx_replay_import)

# rlx_fuzz_target(NAME FORMAT SOURCES...): what new inputs reach stays in corpus/NAME of the build folder, what breaks
# in crashes/.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/crashes)
function(rlx_fuzz_target name format)
  add_executable(rlx_fuzz_${name} fuzz/libfuzzer_main.cpp ${ARGN})
  target_compile_definitions(rlx_fuzz_${name} PRIVATE RLX_FUZZ_TARGET=fuzz_${format})
  target_link_libraries(rlx_fuzz_${name} PRIVATE rlx_fuzz_targets)
  target_link_options(rlx_fuzz_${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(rlx_fuzzers rlx_fuzz_${name})
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/corpus/${name})
  add_test(NAME fuzz_${name}
           COMMAND rlx_fuzz_${name} -max_total_time=${RLX_FUZZ_SECONDS} -timeout=10 -rss_limit_mb=2048
                   -malloc_limit_mb=1024 -max_len=16384 -print_final_stats=1 -verbosity=0 -dict=${seeds}/${format}.dict
                   -artifact_prefix=${PROJECT_BINARY_DIR}/crashes/${name}- ${PROJECT_BINARY_DIR}/corpus/${name}
                   ${seeds}/${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/regressions/${format})
  set_tests_properties(fuzz_${name} PROPERTIES FIXTURES_REQUIRED fuzz_seeds)
endfunction()

rlx_fuzz_target(json json)
rlx_fuzz_target(rlxg rlxg)
rlx_fuzz_target(gguf gguf)
rlx_fuzz_target(text text)
rlx_fuzz_target(template template)
# The mutator reflects upon messages, which those of the importer cannot (LITE_RUNTIME): the same messages once more,
# with reflection, in a package of their own.
find_package(Protobuf QUIET)
if(TARGET rlx_onnx_proto)
  set(mutated ${PROJECT_BINARY_DIR}/generated/onnx_mutated)
  file(READ ${RLX_ONNX_PROTO} proto)
  string(REGEX REPLACE "option optimize_for[^;]*;" "" proto "${proto}")
  string(REPLACE "package onnx;" "package onnx_mutated;" proto "${proto}")
  file(CONFIGURE OUTPUT ${mutated}/onnx_mutated.proto CONTENT "${proto}" @ONLY)
  add_custom_command(
    OUTPUT ${mutated}/onnx_mutated.pb.cc ${mutated}/onnx_mutated.pb.h
    COMMAND protobuf::protoc --proto_path=${mutated} --cpp_out=${mutated} ${mutated}/onnx_mutated.proto
    DEPENDS ${mutated}/onnx_mutated.proto)
  add_library(rlx_onnx_mutated STATIC ${mutated}/onnx_mutated.pb.cc ${mutated}/onnx_mutated.pb.h)
  target_compile_options(rlx_onnx_mutated PRIVATE ${RLX_FOREIGN_OPTIONS})
  target_include_directories(rlx_onnx_mutated SYSTEM PUBLIC ${mutated})
  target_link_libraries(rlx_onnx_mutated PUBLIC rlx_onnx_proto)
  rlx_fuzz_target(onnx onnx fuzz/onnx_mutator.cpp)
  target_link_libraries(rlx_fuzz_onnx PRIVATE rlx_onnx_mutated)
  target_compile_options(rlx_fuzz_onnx PRIVATE -fno-sanitize=vptr)  # libprotobuf may lack the types that it compares
endif()
# The length of a header: 8 bytes first in safetensors; in npy behind the magic and the version, 2 bytes in version 1 and
# 4 in later ones, which have a target of their own.
rlx_fuzz_target(safetensors safetensors fuzz/header_mutator.cpp)
target_compile_definitions(rlx_fuzz_safetensors PRIVATE RLX_FUZZ_LENGTH_OFFSET=0 RLX_FUZZ_LENGTH_BYTES=8)
rlx_fuzz_target(npy npy fuzz/header_mutator.cpp)
target_compile_definitions(rlx_fuzz_npy PRIVATE RLX_FUZZ_LENGTH_OFFSET=8 RLX_FUZZ_LENGTH_BYTES=2)
rlx_fuzz_target(npy_long npy fuzz/header_mutator.cpp)
target_compile_definitions(rlx_fuzz_npy_long PRIVATE RLX_FUZZ_LENGTH_OFFSET=8 RLX_FUZZ_LENGTH_BYTES=4)
