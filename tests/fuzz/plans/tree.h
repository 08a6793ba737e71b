// SPDX-License-Identifier: Apache-2.0
// Any FlatBuffer as a tree that can be edited, by its binary schema: whatever fields a schema has
// or will have, the mutator of plans reaches them without knowing them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::test {

enum class NodeKind : uint8_t {
  Absent,
  Scalar,  // `bits`, little-endian
  Text,    // `bytes`
  Bytes,   // `bytes`: a struct, or a vector of scalars or of structs
  Table,   // `kids`: one per field of the table, by id
  Tables,  // `kids`: the tables of a vector
  Texts,   // `kids`: the strings of a vector
};

struct Node {
  NodeKind kind = NodeKind::Absent;
  uint64_t bits = 0;
  std::vector<std::byte> bytes;
  std::vector<Node> kids;
};

enum class FieldKind : uint8_t { Scalar, Text, Scalars, Texts, Struct, Structs, Table, Tables };

struct FieldType {
  std::string name;
  FieldKind kind = FieldKind::Scalar;
  uint32_t offset = 0;         // of a table: of its vtable entry; of a struct: of its bytes
  uint32_t bytes = 0;          // of a scalar, a struct, or an element of these
  uint32_t align = 0;          // of that
  uint32_t object = 0;         // Struct, Structs, Table, Tables: number of its type
  uint64_t initial = 0;        // Scalar: what an absent one stands for
  bool optional = false;       // Scalar: absent is a value of its own
  std::vector<int64_t> names;  // values of an enumeration
};

struct ObjectType {
  std::string name;
  bool is_struct = false;
  std::vector<FieldType> fields;  // of a table: by id
};

// A schema as `flatc --bfbs-gen-embed` embeds it.
class TreeSchema {
 public:
  explicit TreeSchema(const uint8_t* binary_schema);

  [[nodiscard]] const std::vector<ObjectType>& objects() const { return objects_; }
  [[nodiscard]] const ObjectType& object(uint32_t number) const { return objects_[number]; }
  [[nodiscard]] uint32_t root() const { return root_; }
  // Its number; `name` without namespace. Must exist.
  [[nodiscard]] uint32_t object_named(std::string_view name) const;
  // The field's place in ObjectType::fields. Must exist.
  [[nodiscard]] size_t field_named(uint32_t object, std::string_view name) const;

  // `buffer` must have been verified.
  [[nodiscard]] Node read(std::span<const std::byte> buffer) const;
  // The tree as a buffer; what is required may be missing in it.
  [[nodiscard]] std::vector<std::byte> write(const Node& root) const;

 private:
  std::vector<ObjectType> objects_;
  uint32_t root_ = 0;
  std::string identifier_;
};

// Places of a verified buffer where it refers to a table or vector: for edits behind the back of
// any schema.
struct Reference {
  uint32_t position = 0;  // of the offset
  uint32_t target = 0;    // to which it points
};
std::vector<Reference> references_of(const TreeSchema& schema, std::span<const std::byte> buffer);

}  // namespace rlx::test
