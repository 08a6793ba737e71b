#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the runtime to a temporary place, builds examples/embed against it in every way that its README names, runs each
# program on the null device, and holds its size and its libraries to what is promised.
# usage: embed_test.sh SOURCE_DIR BUILD_DIR WRITE_PLAN
set -eu
source_dir=$1
build_dir=$2
write_plan=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
growth_limit=1572864 # 1.5 MiB

for part in librlx librlx-dev; do cmake --install "$build_dir" --component $part --prefix "$work/install"; done > "$work/log"
"$write_plan" "$work/a.plan" "$work/x.raw"
lib_dir=$(dirname "$(find "$work/install" -name librlx.a)")
export PKG_CONFIG_PATH="$lib_dir/pkgconfig"
pkg-config --exists rlx

check_run() {
  output=$(LD_LIBRARY_PATH="$lib_dir" "$1" "$work/a.plan" null "x=$work/x.raw")
  echo "$output" | grep -q '^y: 0 0.5 1 1.5 2 2.5 3 3.5$' || {
    echo "wrong output of $1: $output"
    exit 1
  }
}

for link in static shared; do
  cmake -S "$source_dir/examples/embed" -B "$work/$link" -DCMAKE_PREFIX_PATH="$work/install" -DRLX_LINK=$link \
    -DCMAKE_BUILD_TYPE=MinSizeRel > "$work/log"
  cmake --build "$work/$link" > "$work/log"
  check_run "$work/$link/embed"
  check_run "$work/$link/embed_cpp"
done

# shellcheck disable=SC2046  # flags are words
cc -Os "$source_dir/examples/embed/embed.c" -o "$work/with_pkg_config" $(pkg-config --cflags --libs rlx)
check_run "$work/with_pkg_config"
# shellcheck disable=SC2046
cc -Os "$source_dir/examples/embed/embed.c" -o "$work/static_with_pkg_config" $(pkg-config --cflags rlx) "$lib_dir/librlx.a" \
  $(pkg-config --variable=static_libs rlx)
check_run "$work/static_with_pkg_config"

# rlx_text beside either library.
cat > "$work/text.c" << 'END'
#include <rlx_text.h>
#include <stdio.h>
int main(void) {
  rlx_plan* plan = NULL;
  rlx_text* text = NULL;
  const int opened = rlx_plan_open_file("a.plan", NULL, &plan) == RLX_OK;
  if (!opened || rlx_text_open(plan, &text) != RLX_INVALID_ARGUMENT) return 1;
  printf("%s\n", rlx_text_last_error());
  rlx_plan_close(plan);
  return 0;
}
END
cat > "$work/CMakeLists.txt" << 'END'
cmake_minimum_required(VERSION 3.25)
project(text LANGUAGES C)
find_package(rlx 0.1 REQUIRED COMPONENTS text)
foreach(link static shared)
  add_executable(text_${link} text.c)
  target_link_libraries(text_${link} PRIVATE rlx::text rlx::${link})
endforeach()
END
cmake -S "$work" -B "$work/text" -DCMAKE_PREFIX_PATH="$work/install" > "$work/log"
cmake --build "$work/text" > "$work/log"
# shellcheck disable=SC2046
cc "$work/text.c" -o "$work/text/with_pkg_config" $(pkg-config --cflags --libs rlx_text)
for program in text_static text_shared with_pkg_config; do
  (cd "$work" && LD_LIBRARY_PATH="$lib_dir" "text/$program" | grep -q '^the plan has no text section') || {
    echo "wrong output of $program"
    exit 1
  }
done

echo 'int main(void) { return 0; }' > "$work/nothing.c"
cc -Os "$work/nothing.c" -o "$work/nothing"
strip "$work/nothing" "$work/static/embed"
growth=$(($(stat -c %s "$work/static/embed") - $(stat -c %s "$work/nothing")))
echo "embedding librlx.a adds $growth bytes"
if [ "$growth" -gt "$growth_limit" ]; then
  echo "more than the $growth_limit that are promised"
  exit 1
fi
libraries=$(objdump -p "$work/static/embed" | awk '/NEEDED/ {print $2}' | grep -v -e '^libc\.so' -e '^ld-linux' || true)
if [ -n "$libraries" ]; then
  echo "the program needs more than libc: $libraries"
  exit 1
fi
exported=$(nm -D --defined-only "$lib_dir/librlx.so" | awk '{print $3}' | grep -v '^rlx_' || true)
if [ -n "$exported" ]; then
  echo "librlx.so exports more than rlx_*: $exported"
  exit 1
fi
