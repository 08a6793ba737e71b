// SPDX-License-Identifier: Apache-2.0
// FlatBuffers to trees and back, by reflection.
#include "tests/fuzz/plans/tree.h"

#include <flatbuffers/flatbuffers.h>
#include <flatbuffers/reflection_generated.h>

#include <algorithm>
#include <cstring>
#include <functional>

namespace rlx::test {
namespace {

uint32_t scalar_bytes(reflection::BaseType type) {
  switch (type) {
    case reflection::UType:
    case reflection::Bool:
    case reflection::Byte:
    case reflection::UByte:
      return 1;
    case reflection::Short:
    case reflection::UShort:
      return 2;
    case reflection::Int:
    case reflection::UInt:
    case reflection::Float:
      return 4;
    case reflection::Long:
    case reflection::ULong:
    case reflection::Double:
      return 8;
    default:
      return 0;
  }
}

FieldKind kind_of(const reflection::Type& type, const reflection::Schema& schema) {
  const auto is_struct = [&] {
    return schema.objects()->Get(static_cast<uint32_t>(type.index()))->is_struct();
  };
  if (type.base_type() == reflection::String) return FieldKind::Text;
  if (type.base_type() == reflection::Obj)
    return is_struct() ? FieldKind::Struct : FieldKind::Table;
  if (type.base_type() != reflection::Vector) return FieldKind::Scalar;
  if (type.element() == reflection::String) return FieldKind::Texts;
  if (type.element() != reflection::Obj) return FieldKind::Scalars;
  return is_struct() ? FieldKind::Structs : FieldKind::Tables;
}

FieldType field_type(const reflection::Field& field, const reflection::Schema& schema) {
  const reflection::Type& type = *field.type();
  FieldType made{.name = field.name()->str(),
                 .kind = kind_of(type, schema),
                 .offset = field.offset(),
                 .optional = field.optional()};
  const bool is_vector = type.base_type() == reflection::Vector;
  made.bytes = made.align = scalar_bytes(is_vector ? type.element() : type.base_type());
  if (made.kind >= FieldKind::Struct) {
    made.object = static_cast<uint32_t>(type.index());
    const reflection::Object& object = *schema.objects()->Get(made.object);
    made.bytes = static_cast<uint32_t>(object.bytesize());
    made.align = static_cast<uint32_t>(object.minalign());
  } else if (type.index() >= 0) {
    const auto* values = schema.enums()->Get(static_cast<uint32_t>(type.index()))->values();
    for (const reflection::EnumVal* value : *values) made.names.push_back(value->value());
  }
  if (made.kind != FieldKind::Scalar) return made;
  const double real = field.default_real();
  made.initial = static_cast<uint64_t>(field.default_integer());
  if (type.base_type() == reflection::Double) std::memcpy(&made.initial, &real, sizeof real);
  return made;
}

std::vector<std::byte> copied(const uint8_t* data, size_t bytes) {
  std::vector<std::byte> copy(bytes);
  if (bytes > 0) std::memcpy(copy.data(), data, bytes);
  return copy;
}

Node read_text(const uint8_t* string) {
  const auto length = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(string);
  return {.kind = NodeKind::Text, .bytes = copied(string + sizeof length, length)};
}

Node read_table(const TreeSchema& schema, uint32_t object, const flatbuffers::Table& table);

Node read_field(const TreeSchema& schema, const FieldType& field, const flatbuffers::Table& table) {
  Node node;
  const uint8_t* at = table.GetAddressOf(static_cast<flatbuffers::voffset_t>(field.offset));
  if (field.kind == FieldKind::Scalar) {
    if (at == nullptr && field.optional) return node;
    node.kind = NodeKind::Scalar;
    node.bits = field.initial;
    if (at == nullptr) return node;
    node.bits = 0;
    std::memcpy(&node.bits, at, field.bytes);
    return node;
  }
  if (at == nullptr) return node;
  if (field.kind == FieldKind::Struct) {
    node.kind = NodeKind::Bytes;
    node.bytes = copied(at, field.bytes);
    return node;
  }
  const uint8_t* target = at + flatbuffers::ReadScalar<flatbuffers::uoffset_t>(at);
  if (field.kind == FieldKind::Table)
    return read_table(schema, field.object, *reinterpret_cast<const flatbuffers::Table*>(target));
  const auto length = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(target);
  const uint8_t* elements = target + sizeof length;
  if (field.kind == FieldKind::Text) return read_text(target);
  if (field.kind == FieldKind::Tables || field.kind == FieldKind::Texts) {
    node.kind = field.kind == FieldKind::Tables ? NodeKind::Tables : NodeKind::Texts;
    for (uint32_t i = 0; i < length; ++i) {
      const uint8_t* element = elements + i * sizeof(flatbuffers::uoffset_t);
      element += flatbuffers::ReadScalar<flatbuffers::uoffset_t>(element);
      node.kids.push_back(field.kind == FieldKind::Tables
                              ? read_table(schema, field.object,
                                           *reinterpret_cast<const flatbuffers::Table*>(element))
                              : read_text(element));
    }
  } else {
    node.kind = NodeKind::Bytes;
    node.bytes = copied(elements, size_t{length} * field.bytes);
  }
  return node;
}

Node read_table(const TreeSchema& schema, uint32_t object, const flatbuffers::Table& table) {
  Node node{.kind = NodeKind::Table};
  for (const FieldType& field : schema.object(object).fields)
    node.kids.push_back(read_field(schema, field, table));
  return node;
}

// Flatbuffers 2 takes bytes and alignment in one; 23 takes them by themselves.
template <typename Builder>
void start_vector(Builder& builder, size_t count, const FieldType& field) {
  if constexpr (requires { builder.StartVector(count, field.bytes, field.align); }) {
    builder.StartVector(count, field.bytes, field.align);
  } else {
    builder.StartVector(count * field.bytes / field.align, field.align);
  }
}

class TreeWriter {
 public:
  explicit TreeWriter(const TreeSchema& schema) : schema_(schema) {}

  std::vector<std::byte> write(const Node& root, const std::string& identifier) {
    const flatbuffers::Offset<void> table(write_table(schema_.root(), root));
    builder_.Finish(table, identifier.c_str());
    return copied(builder_.GetBufferPointer(), builder_.GetSize());
  }

 private:
  using Position = flatbuffers::uoffset_t;

  Position write_table(uint32_t object, const Node& node) {
    const std::vector<FieldType>& fields = schema_.object(object).fields;
    std::vector<Position> children(fields.size(), 0);
    for (size_t i = 0; i < fields.size(); ++i) children[i] = write_child(fields[i], node.kids[i]);
    const Position start = builder_.StartTable();
    // Wide fields first, as generated code does, so that little is lost to padding.
    for (const uint32_t bytes : {8u, 4u, 2u, 1u}) {
      for (size_t i = 0; i < fields.size(); ++i) {
        if (fields[i].kind == FieldKind::Scalar && fields[i].bytes == bytes)
          add_scalar(fields[i], node.kids[i]);
      }
      for (size_t i = 0; bytes == 8 && i < fields.size(); ++i) {
        if (fields[i].kind == FieldKind::Struct) add_struct(fields[i], node.kids[i]);
      }
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      if (children[i] == 0) continue;
      builder_.AddOffset(static_cast<flatbuffers::voffset_t>(fields[i].offset),
                         flatbuffers::Offset<void>(children[i]));
    }
    return builder_.EndTable(start);
  }

  Position write_text(const Node& node) {
    const auto* text = reinterpret_cast<const char*>(node.bytes.data());
    return builder_.CreateString(text, node.bytes.size()).o;
  }

  // 0 where there is none, or where the table holds it itself.
  Position write_child(const FieldType& field, const Node& node) {
    if (node.kind == NodeKind::Absent || field.kind == FieldKind::Scalar ||
        field.kind == FieldKind::Struct) {
      return 0;
    }
    if (field.kind == FieldKind::Text) return write_text(node);
    if (field.kind == FieldKind::Table) return write_table(field.object, node);
    if (field.kind == FieldKind::Tables || field.kind == FieldKind::Texts) {
      std::vector<flatbuffers::Offset<void>> elements;
      for (const Node& kid : node.kids) {
        elements.emplace_back(field.kind == FieldKind::Tables ? write_table(field.object, kid)
                                                              : write_text(kid));
      }
      return builder_.CreateVector(elements).o;
    }
    const size_t count = node.bytes.size() / field.bytes;
    start_vector(builder_, count, field);
    builder_.PushBytes(reinterpret_cast<const uint8_t*>(node.bytes.data()), count * field.bytes);
    return builder_.EndVector(count);
  }

  void add_scalar(const FieldType& field, const Node& node) {
    if (node.kind == NodeKind::Absent) return;
    const auto add = [&](auto typed) {
      if (!field.optional && node.bits == field.initial) return;
      std::memcpy(&typed, &node.bits, sizeof typed);
      builder_.AddElement(static_cast<flatbuffers::voffset_t>(field.offset), typed);
    };
    if (field.bytes == 8) add(uint64_t{});
    if (field.bytes == 4) add(uint32_t{});
    if (field.bytes == 2) add(uint16_t{});
    if (field.bytes == 1) add(uint8_t{});
  }

  void add_struct(const FieldType& field, const Node& node) {
    if (node.bytes.size() != field.bytes) return;
    builder_.StartStruct(field.align);
    builder_.PushBytes(reinterpret_cast<const uint8_t*>(node.bytes.data()), node.bytes.size());
    builder_.AddStructOffset(static_cast<flatbuffers::voffset_t>(field.offset),
                             builder_.EndStruct());
  }

  const TreeSchema& schema_;
  flatbuffers::FlatBufferBuilder builder_;
};

}  // namespace

TreeSchema::TreeSchema(const uint8_t* binary_schema) {
  const reflection::Schema& schema = *reflection::GetSchema(binary_schema);
  for (const reflection::Object* object : *schema.objects()) {
    const std::string full = object->name()->str();
    ObjectType made{.name = full.substr(full.rfind('.') + 1), .is_struct = object->is_struct()};
    for (const reflection::Field* field : *object->fields())
      made.fields.push_back(field_type(*field, schema));
    // The schema has them by name.
    std::sort(made.fields.begin(), made.fields.end(),
              [](const FieldType& a, const FieldType& b) { return a.offset < b.offset; });
    if (object == schema.root_table()) root_ = static_cast<uint32_t>(objects_.size());
    objects_.push_back(std::move(made));
  }
  identifier_ = schema.file_ident()->str();
}

uint32_t TreeSchema::object_named(std::string_view name) const {
  const auto found = std::find_if(objects_.begin(), objects_.end(),
                                  [&](const ObjectType& object) { return object.name == name; });
  return static_cast<uint32_t>(found - objects_.begin());
}

size_t TreeSchema::field_named(uint32_t object, std::string_view name) const {
  const std::vector<FieldType>& fields = objects_[object].fields;
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const FieldType& field) { return field.name == name; });
  return static_cast<size_t>(found - fields.begin());
}

Node TreeSchema::read(std::span<const std::byte> buffer) const {
  return read_table(*this, root_, *flatbuffers::GetRoot<flatbuffers::Table>(buffer.data()));
}

std::vector<std::byte> TreeSchema::write(const Node& root) const {
  return TreeWriter(*this).write(root, identifier_);
}

std::vector<Reference> references_of(const TreeSchema& schema, std::span<const std::byte> buffer) {
  std::vector<Reference> references;
  const auto* begin = reinterpret_cast<const uint8_t*>(buffer.data());
  const auto add = [&](const uint8_t* at) {
    const uint8_t* target = at + flatbuffers::ReadScalar<flatbuffers::uoffset_t>(at);
    references.push_back(
        {static_cast<uint32_t>(at - begin), static_cast<uint32_t>(target - begin)});
    return target;
  };
  const std::function<void(uint32_t, const uint8_t*)> walk = [&](uint32_t object,
                                                                 const uint8_t* data) {
    const auto& table = *reinterpret_cast<const flatbuffers::Table*>(data);
    for (const FieldType& field : schema.object(object).fields) {
      const uint8_t* at = table.GetAddressOf(static_cast<flatbuffers::voffset_t>(field.offset));
      if (at == nullptr || field.kind == FieldKind::Scalar || field.kind == FieldKind::Struct)
        continue;
      const uint8_t* target = add(at);
      if (field.kind == FieldKind::Table) walk(field.object, target);
      if (field.kind != FieldKind::Tables) continue;
      const auto length = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(target);
      for (uint32_t i = 0; i < length; ++i)
        walk(field.object, add(target + sizeof length * (i + 1)));
    }
  };
  walk(schema.root(), add(begin));
  return references;
}

}  // namespace rlx::test
