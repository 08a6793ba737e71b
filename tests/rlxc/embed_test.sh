#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rlxc --embed: a program with the plan as C source and one with it as an object file, C and C++, each built as the example's README
# says, hold the bytes that rlxc writes to a file, and open them. What is no C name, or no ending, is refused.
# usage: embed_test.sh SOURCE_DIR BUILD_DIR
set -eu
source_dir=$1
build_dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rlxc=$build_dir/bin/rlxc
model=$source_dir/examples/mnist/mnist.json

fail() {
  echo "$1"
  exit 1
}

for part in librlx librlx-dev; do cmake --install "$build_dir" --component $part --prefix "$work/install"; done > "$work/log"
PKG_CONFIG_PATH=$(dirname "$(find "$work/install" -name rlx.pc)")
export PKG_CONFIG_PATH
cd "$work"
"$rlxc" "$model" --dim batch=1 -o wanted.plan -q
"$rlxc" "$model" --dim batch=1 --embed digits -o digits.o -q
mkdir source && "$rlxc" "$model" --dim batch=1 --embed digits -o source/digits.c -q
cmp digits.h source/digits.h || fail "two headers of one plan"

cat > dump.c << 'END_OF_C'
#include <stdio.h>
#include "digits.h"
int main(void) { return fwrite(digits_plan, 1, digits_plan_bytes, stdout) == digits_plan_bytes ? 0 : 1; }
END_OF_C
cp dump.c dump.cpp
cc -c -Isource $(pkg-config --cflags rlx) -Wall -Wextra -Wpedantic -Werror source/digits.c -o from_source.o
for object in digits.o from_source.o; do
  cc -I. $(pkg-config --cflags rlx) -Wall -Wextra -Wpedantic -Werror dump.c $object $(pkg-config --libs rlx) -o dump
  c++ -I. $(pkg-config --cflags rlx) -Wall -Wextra -Wpedantic -Werror dump.cpp $object $(pkg-config --libs rlx) -o dump_cpp
  cc -I. $(pkg-config --cflags rlx) -Wall -Wextra -Wpedantic -Werror "$source_dir/examples/embed/inside.c" $object \
    "$(pkg-config --variable=libdir rlx)/librlx.a" $(pkg-config --variable=static_libs rlx) -o inside
  LD_LIBRARY_PATH=$(pkg-config --variable=libdir rlx)
  export LD_LIBRARY_PATH
  ./dump | cmp - wanted.plan || fail "$object: another plan"
  ./dump_cpp | cmp - wanted.plan || fail "$object: another plan in C++"
  ./inside null | grep -q "bytes of plan inside: entry main of" || fail "$object: $(./inside null)"
done

refused() {
  words=$1
  shift
  if "$rlxc" "$model" --dim batch=1 "$@" 2> said; then fail "taken: $*"; fi
  grep -q -e "$words" said || fail "$*: $(cat said)"
}
refused "no C name" --embed 1st -o a.c
refused "no C name" --embed a-b -o a.o
refused "neither .c nor .o" --embed a -o a.plan
refused "exclude each other" --embed a -o a.o --external-weights
mkdir a.c
refused "it is a folder" --embed a -o a.c
rmdir a.c
[ ! -e a.c ] && [ ! -e a.o ] && [ ! -e a.h ] || fail "a refused call wrote something"
echo "plans inside of programs: source and object, C and C++"
