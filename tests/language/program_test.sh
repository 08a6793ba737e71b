#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/chat with a tiny model: built against an installed librlx and librlx_text, run on the first Vulkan device. Its replies are
# rlxrun's, its caches go on in another process. No network.
# usage: program_test.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source_dir=$1
build_dir=$2
bin=$build_dir/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for part in librlx librlx-dev; do cmake --install "$build_dir" --component $part --prefix "$work/rlx"; done > "$work/log"
cmake -S "$source_dir/examples/chat" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/rlx" > "$work/log"
cmake --build "$work/build" > "$work/log"
"$bin/rlx_write_language_plan" "$work/plan"
chat() { "$work/build/chat" "$work/plan" --tokens 8 "$@"; }

printf 'hello\nand then\n' > "$work/said"
if ! chat --system Be < "$work/said" > "$work/replies" 2> "$work/error"; then
  cat "$work/error"
  exit 1
fi
"$bin/rlxrun" "$work/plan" --device vulkan -i -n 8 --system Be < "$work/said" > "$work/wanted" 2> "$work/log"
diff "$work/replies" "$work/wanted"

# A conversation of two messages, the first in a process before.
chat --save "$work/caches" <<< 'hello' > "$work/first"
chat --load "$work/caches" --save "$work/again" <<< 'hello' > "$work/second"
diff "$work/first" "$work/second"
cmp "$work/caches" "$work/again"

# refuse CODE TEXT ARGUMENT...: the program ends with the code and says the text.
refuse() {
  local code=0
  "$work/build/chat" "${@:3}" < "$work/said" > "$work/answer" 2> "$work/error" || code=$?
  [ "$code" -eq "$1" ] && grep -q "$2" "$work/error" || { echo "wanted $1, $2; got $code:"; cat "$work/error"; exit 1; }
}
refuse 1 'usage: chat PLAN' "$work/plan" --tokens
refuse 2 'none.plan' "$work/none.plan"
refuse 2 '"nope"' "$work/plan" --device nope
refuse 2 'holds no caches' "$work/plan" --load "$work/said"
head -c 1000 "$work/caches" > "$work/half"
refuse 2 'too short' "$work/plan" --load "$work/half"
cat "$work/caches" "$work/said" > "$work/long"
refuse 2 'another model' "$work/plan" --load "$work/long"
refuse 2 'the context holds 96' "$work/plan" --system "$(printf 'a%.0s' {1..97})"
refuse 2 'the context is full' "$work/plan" --tokens 200
echo "examples/chat answers as it should"
