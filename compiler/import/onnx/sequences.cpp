// SPDX-License-Identifier: Apache-2.0
// Sequences and optional values: lists of tensors that are known in length while the model is
// imported, so that their operators only rearrange names. An optional value is what it holds, or
// one that holds none.
#include <algorithm>
#include <array>

#include "compiler/import/onnx/op_table.h"

namespace rlx::onnx_import {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 16;

void sequence_empty(NodeReader& n, const OnnxOp&) {
  n.integer("dtype", 1);  // elements say theirs
  n.set_output(0, n.builder().add_sequence({}));
}

void sequence_construct(NodeReader& n, const OnnxOp&) {
  Builder::Sequence elements;
  for (size_t i = 0; i < n.input_count(); ++i) elements.push_back(n.input(i));
  n.set_output(0, n.builder().add_sequence(std::move(elements)));
}

// A place in a sequence; `count` places there are, counted from the end where negative.
size_t place_of(NodeReader& n, size_t input, size_t count) {
  const int64_t place = n.known_int(input, "the place in the sequence");
  const auto length = static_cast<int64_t>(count);
  if (place >= -length && place < length)
    return static_cast<size_t>(place < 0 ? place + length : place);
  n.refuse("place " + std::to_string(place) + " lies outside a sequence of " +
           std::to_string(count) + " elements");
}

void sequence_insert(NodeReader& n, const OnnxOp&) {
  Builder::Sequence elements = n.sequence(0);
  size_t place = elements.size();
  // The end is a place too, which negative numbers do not name.
  const bool has_place = n.has_input(2);
  const bool is_end = has_place && n.known_int(2, "the place in the sequence") ==
                                       static_cast<int64_t>(elements.size());
  if (has_place && !is_end) place = place_of(n, 2, elements.size());
  elements.insert(elements.begin() + static_cast<ptrdiff_t>(place), n.input(1));
  if (static_cast<int64_t>(elements.size()) > kMostElements)
    n.refuse("the sequence has more than 2^16 elements");
  n.set_output(0, n.builder().add_sequence(std::move(elements)));
}

void sequence_erase(NodeReader& n, const OnnxOp&) {
  Builder::Sequence elements = n.sequence(0);
  if (elements.empty()) n.refuse("the sequence is empty");
  const size_t place = n.has_input(1) ? place_of(n, 1, elements.size()) : elements.size() - 1;
  elements.erase(elements.begin() + static_cast<ptrdiff_t>(place));
  n.set_output(0, n.builder().add_sequence(std::move(elements)));
}

void sequence_at(NodeReader& n, const OnnxOp&) {
  const Builder::Sequence elements = n.sequence(0);
  n.set_output(0, elements[place_of(n, 1, elements.size())]);
}

void sequence_length(NodeReader& n, const OnnxOp&) {
  n.set_output(0, n.constant_ints(DType::i64, {}, {static_cast<int64_t>(n.sequence(0).size())}));
}

// Parts of one size but for the last, of given sizes, or of one each, which may lose the axis.
void split_to_sequence(NodeReader& n, const OnnxOp&) {
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(0));
  const bool keeps_dims = n.integer("keepdims", 1) != 0 || n.has_input(1);
  const int64_t length = n.shape(0)[static_cast<size_t>(axis)];
  Ints sizes;
  if (n.has_input(1) && !n.shape(1).empty()) {
    sizes = n.known_ints(1, "the sizes of the parts");
  } else {
    const int64_t each = n.has_input(1) ? n.known_int(1, "the size of the parts") : 1;
    if (each < 1) n.refuse("the size of the parts is " + std::to_string(each));
    for (int64_t done = 0; done < length; done += each)
      sizes.emplace_back(std::min(each, length - done));
  }
  const auto parts = static_cast<int64_t>(sizes.size());
  if (parts < 1 || parts > kMostElements)
    n.refuse("it gives " + std::to_string(parts) + " parts, wanted 1 to 2^16");
  Builder::Sequence elements = n.emit_all("split", {n.input(0)}, {{"axis", axis}, {"sizes", sizes}},
                                          static_cast<size_t>(parts));
  for (ValueId& element : elements) {
    if (!keeps_dims) element = n.emit("squeeze", {element}, {{"axes", Ints{axis}}});
  }
  n.set_output(0, n.builder().add_sequence(std::move(elements)));
}

void concat_from_sequence(NodeReader& n, const OnnxOp&) {
  const Builder::Sequence& elements = n.sequence(0);
  if (elements.empty()) n.refuse("the sequence is empty");
  const bool is_new = n.integer("new_axis", 0) != 0;
  n.set_output(0, n.emit(is_new ? "stack" : "concat", Inputs(elements.begin(), elements.end()),
                         {{"axis", n.required_integer("axis")}}));
}

void same_value(NodeReader& n, const OnnxOp& row) {
  const ValueId id = n.any_input(0);
  n.set_output(0, n.builder().sequence(id) != nullptr ? id : n.emit(row.target, {id}));
}

void optional(NodeReader& n, const OnnxOp&) {
  n.attribute("type");
  n.set_output(0, n.has_input(0) ? n.any_input(0) : n.builder().add_none());
}

void optional_has_element(NodeReader& n, const OnnxOp&) {
  const bool has_element = n.has_input(0) && !n.builder().is_none(n.any_input(0));
  n.set_output(0, n.constant_ints(DType::bool_, {}, {has_element ? 1 : 0}));
}

void optional_get_element(NodeReader& n, const OnnxOp& row) {
  n.expect_value(0);
  same_value(n, row);
}

constexpr std::array kSequenceRows = {
    OnnxOp{"ConcatFromSequence", concat_from_sequence},
    OnnxOp{"Identity", same_value, "identity"},
    OnnxOp{"Optional", optional},
    OnnxOp{"OptionalGetElement", optional_get_element, "identity"},
    OnnxOp{"OptionalHasElement", optional_has_element},
    OnnxOp{"SequenceAt", sequence_at},
    OnnxOp{"SequenceConstruct", sequence_construct},
    OnnxOp{"SequenceEmpty", sequence_empty},
    OnnxOp{"SequenceErase", sequence_erase},
    OnnxOp{"SequenceInsert", sequence_insert},
    OnnxOp{"SequenceLength", sequence_length},
    OnnxOp{"SplitToSequence", split_to_sequence},
};

}  // namespace

std::span<const OnnxOp> sequence_rows() {
  return kSequenceRows;
}

}  // namespace rlx::onnx_import
