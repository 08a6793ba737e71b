// SPDX-License-Identifier: Apache-2.0
// GGUF files, versions 2 and 3, little-endian: metadata by key, and tensors as views of the file.
// The file is not trusted: every count is held against the bytes that are left before anything is
// made of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/import/npy.h"

namespace rlx::gguf {

// Types of metadata, by their numbers in files.
enum class ValueType : uint32_t {
  U8,
  I8,
  U16,
  I16,
  U32,
  I32,
  F32,
  Bool,
  String,
  Array,
  U64,
  I64,
  F64
};

// Items of one type that is no Array. `bytes` hold whole items: numbers as they stand in memory,
// strings each behind the u64 of its length.
struct Array {
  ValueType type = ValueType::U8;
  uint64_t count = 0;
  std::span<const std::byte> bytes;
};

// u64 of integers above i64's range alone; f32 widened.
using Value = std::variant<int64_t, uint64_t, double, bool, std::string_view, Array>;
// What kind of value it is, for messages: "a string", "an array of i32".
std::string kind_text(const Value& value);

// Items of an Array of numbers or bools, as the Value of each; nullopt where it holds strings.
std::optional<std::vector<Value>> numbers_of(const Array& array);
// Walks an Array of strings, in the file's order. Precondition: array.type is String.
class Strings {
 public:
  explicit Strings(const Array& array) : bytes_(array.bytes) {}
  // The next string; nullopt behind the last one.
  std::optional<std::string_view> next();

 private:
  std::span<const std::byte> bytes_;
};

struct Tensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;  // outermost first: the reverse of the file's order
  uint64_t offset_bytes = 0;   // in the file
  std::span<const std::byte> bytes;
};

// A key as the file has it: its name, type and value.
struct KeyRecord {
  std::string_view name;
  std::span<const std::byte> bytes;
};

struct File {
  uint32_t version = 0;
  uint64_t alignment = 32;  // of tensors
  std::map<std::string_view, Value, std::less<>> keys;
  std::vector<KeyRecord> key_records;  // the same, in the file's order
  std::vector<Tensor> tensors;         // in the file's order
};

// True for what begins as a GGUF file does, of any version.
bool has_magic(std::span<const std::byte> bytes);

// The views live as long as `bytes`. A fault's message is the end of a sentence about the file; of
// tensor types that rlx lacks, one message names them all.
std::variant<File, ParseFault> parse(std::span<const std::byte> bytes);

}  // namespace rlx::gguf
