#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/search from its sources to an answer, with a vocabulary of ten words and a model that takes the mean of a row per
# word: built against an installed librlx, run on the first Vulkan device. No network.
# usage: program_test.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source_dir=$1
build_dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for part in librlx librlx-dev; do cmake --install "$build_dir" --component $part --prefix "$work/rlx"; done > "$work/log"
cmake -S "$source_dir/examples/search" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/rlx" > "$work/log"
cmake --build "$work/build" > "$work/log"

cat > "$work/tokenizer.json" << 'END'
{"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "vocab": {
   "[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "cat": 4, "dog": 5, "bird": 6, "fish": 7, "sings": 8, "swims": 9}},
 "normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"},
 "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]}}
END
printf '%s\n' 'the cat' 'A bird sings.' 'fish swims' 'dog, dog, dog and Dog' 'cat dog' > "$work/text"
cat > "$work/model.json" << 'END'
{"rlx_graph": 1, "symbols": [{"name": "batch", "min": 1, "max": 8}, {"name": "seq", "min": 1, "max": 64}],
 "params": [{"name": "table", "dtype": "f32", "shape": [10, 6], "data": {"values": [
   0,0,0,0,0,0, 0,0,0,0,0,0, 0,0,0,0,0,0, 0,0,0,0,0,0,
   1,0,0,0,0,0, 0,1,0,0,0,0, 0,0,1,0,0,0, 0,0,0,1,0,0, 0,0,0,0,1,0, 0,0,0,0,0,1]}}],
 "inputs": [{"name": "input_ids", "dtype": "i64", "shape": ["batch", "seq"]},
            {"name": "attention_mask", "dtype": "i64", "shape": ["batch", "seq"]}],
 "nodes": [
  {"op": "gather", "inputs": ["table", "input_ids"], "outputs": ["words"], "attributes": {"axis": 0}},
  {"op": "cast", "inputs": ["attention_mask"], "outputs": ["counted"], "attributes": {"to": "f32"}},
  {"op": "unsqueeze", "inputs": ["counted"], "outputs": ["column"], "attributes": {"axes": [2]}},
  {"op": "mul", "inputs": ["words", "column"], "outputs": ["masked"]},
  {"op": "reduce_sum", "inputs": ["masked"], "outputs": ["total"], "attributes": {"axes": [1]}},
  {"op": "l2_norm", "inputs": ["total"], "outputs": ["sentence_embedding"]}],
 "outputs": ["sentence_embedding"]}
END
bin=$build_dir/bin
compile() { "$bin/rlxc" "$work/model.json" -o "$@" --quiet; }
compile "$work/plan" --dim batch=1:2 --dim seq=1:16 --tokenizer "$work/tokenizer.json"
search() { "$work/build/search" "$work/plan" "$work/text" "$@"; }

# lines LINE...: the answer holds exactly these, in order.
expect() {
  diff "$work/answer" <(printf '%s\n' "$@") || { echo "wrong answer"; exit 1; }
}

if ! search --query 'Bird' --top 1 --tokens "$work/ids" --embeddings "$work/rows" > "$work/answer" 2> "$work/error"; then
  cat "$work/error"
  exit 1
fi
sed -i 1d "$work/answer"
expect '? Bird' '  0.707  2: A bird sings.'
diff "$work/ids" - << 'END'
2 1 4 3
2 1 6 8 1 3
2 7 9 3
2 5 1 5 1 5 1 5 3
2 4 5 3
END
[ "$(stat -c %s "$work/rows")" -eq $((5 * 6 * 4)) ]

printf '%s\n' 'DOG?' 'swims' | search --top 2 > "$work/answer"
sed -i 1d "$work/answer"
expect '? DOG?' '  1.000  4: dog, dog, dog and Dog' '  0.707  5: cat dog' '? swims' '  0.707  3: fish swims' '  0.000  1: the cat'

# refuse CODE TEXT ARGUMENT...: the program ends with the code and says the text.
refuse() {
  local code=0
  "$work/build/search" "${@:3}" > "$work/answer" 2> "$work/error" || code=$?
  [ "$code" -eq "$1" ] && grep -q "$2" "$work/error" || { echo "wanted $1, $2; got $code:"; cat "$work/error"; exit 1; }
}
refuse 1 'PLAN and TEXT are wanted' "$work/plan"
refuse 1 'is no number' "$work/plan" "$work/text" --top many
refuse 2 'cannot be opened' "$work/plan" "$work/none"
compile "$work/without" --dim batch=1:2 --dim seq=1:16
refuse 2 'the plan has no text section' "$work/without" "$work/text"
compile "$work/fixed" --dim batch=1 --dim seq=16 --tokenizer "$work/tokenizer.json"
refuse 2 'fixed; compile it with --dim' "$work/fixed" "$work/text"
refuse 2 '"nope"' "$work/plan" "$work/text" --device nope
# A line of more tokens than the plan takes ends as all do.
printf 'cat %.0s' $(seq 40) > "$work/long"
"$work/build/search" "$work/plan" "$work/long" --query cat --tokens "$work/ids" > "$work/answer"
diff "$work/ids" <(echo "2$(printf ' 4%.0s' $(seq 14)) 3")
echo "examples/search answers as it should"
