// SPDX-License-Identifier: Apache-2.0
// Verifier, rule group 2: FlatBuffers' own structure of index and debug notes, and what it leaves
// open: that tables and vectors are referred to once, vectors are aligned, and texts can be shown.
#include <algorithm>
#include <deque>
#include <vector>

#include "runtime/verify/verify_context.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr uint32_t kMaxTableDepth = 16;
// A table and the offset that leads to it have 8 bytes before any field; what the index holds also
// has a name, a size or a record.
constexpr size_t kLeastBytesPerIndexTable = 16;
constexpr size_t kLeastBytesPerNote = 8;
constexpr uint32_t kWordBytes = 4;  // every object begins at a multiple of it
constexpr uint64_t kWorkPerTextByte = 8;

enum class FieldKind { Table, Tables, Text, Texts, Scalars };

struct Shape;

// A field of a table that refers to something.
struct Field {
  uint16_t place = 0;  // in the vtable
  FieldKind kind = FieldKind::Scalars;
  uint32_t element_bytes = 0;
  uint32_t alignment = 0;
  const Shape* element = nullptr;  // of Table and Tables
  const char* name = nullptr;
};

// The fields of a type of table that refer to something, in the order of the schema.
struct Shape {
  const flatbuffers::TypeTable* type = nullptr;
  std::vector<Field> fields;
};

uint32_t scalar_bytes(flatbuffers::ElementaryType type) {
  switch (type) {
    case flatbuffers::ET_LONG:
    case flatbuffers::ET_ULONG:
    case flatbuffers::ET_DOUBLE:
      return 8;
    case flatbuffers::ET_INT:
    case flatbuffers::ET_UINT:
    case flatbuffers::ET_FLOAT:
      return 4;
    case flatbuffers::ET_SHORT:
    case flatbuffers::ET_USHORT:
      return 2;
    default:
      return 1;
  }
}

// Shapes of all tables of a schema, from its root on.
class Shapes {
 public:
  const Shape* of(const flatbuffers::TypeTable* type) {
    for (const Shape& known : shapes_) {
      if (known.type == type) return &known;
    }
    Shape& shape = shapes_.emplace_back();
    shape.type = type;
    for (size_t i = 0; i < type->num_elems; ++i) add_field(*type, i, shape);
    return &shape;
  }

 private:
  void add_field(const flatbuffers::TypeTable& type, size_t index, Shape& shape) {
    const flatbuffers::TypeCode code = type.type_codes[index];
    const auto base = static_cast<flatbuffers::ElementaryType>(code.base_type);
    const bool repeats = code.is_repeating != 0;
    // Vtables begin with two sizes of 16 bits.
    Field field{.place = static_cast<uint16_t>(4 + 2 * index), .name = type.names[index]};
    if (base == flatbuffers::ET_STRING) {
      field.kind = repeats ? FieldKind::Texts : FieldKind::Text;
      field.element_bytes = field.alignment = kWordBytes;
    } else if (base == flatbuffers::ET_SEQUENCE) {
      const flatbuffers::TypeTable& element = *type.type_refs[code.sequence_ref]();
      const bool is_struct = element.st == flatbuffers::ST_STRUCT;
      if (is_struct && !repeats) return;  // lies in the table itself
      field.kind = repeats ? FieldKind::Tables : FieldKind::Table;
      field.element_bytes = field.alignment = kWordBytes;
      if (is_struct) {
        field.kind = FieldKind::Scalars;
        field.element_bytes = static_cast<uint32_t>(element.values[element.num_elems]);
        for (size_t i = 0; i < element.num_elems; ++i) {
          const auto part =
              static_cast<flatbuffers::ElementaryType>(element.type_codes[i].base_type);
          field.alignment =
              i == 0 ? scalar_bytes(part) : std::max(field.alignment, scalar_bytes(part));
        }
      } else {
        field.element = of(&element);
      }
    } else {
      if (!repeats) return;
      field.element_bytes = field.alignment = scalar_bytes(base);
    }
    shape.fields.push_back(field);
  }

  std::deque<Shape> shapes_;  // whose addresses stay
};

// The 32-bit words of a buffer that belong to something.
class ClaimedWords {
 public:
  explicit ClaimedWords(size_t bytes) : bits_(bytes / kWordBytes / 64 + 2) {}

  // False if one of the words is claimed already.
  bool claim(size_t begin_bytes, size_t size_bytes) {
    size_t word = begin_bytes / kWordBytes;
    const size_t end = ceil_div(begin_bytes + size_bytes, kWordBytes);
    while (word < end) {
      const size_t bit = word % 64;
      const size_t count = std::min(end - word, 64 - bit);
      const uint64_t mask = (count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1) << bit;
      if ((bits_[word / 64] & mask) != 0) return false;
      bits_[word / 64] |= mask;
      word += count;
    }
    return true;
  }
  [[nodiscard]] bool has(size_t begin_bytes) const {
    const size_t word = begin_bytes / kWordBytes;
    return (bits_[word / 64] >> (word % 64) & 1) != 0;
  }

 private:
  std::vector<uint64_t> bits_;
};

// Walks the tables of a buffer that FlatBuffers' verifier let pass. Since each table and vector is
// claimed once, the walk, and every later one, is as long as the buffer at most.
class Walk {
 public:
  Walk(std::span<const std::byte> buffer, std::string_view what, VerifyRule structure,
       VerifyRule shared, Faults& faults)
      : begin_(reinterpret_cast<const uint8_t*>(buffer.data())),
        what_(what),
        structure_(structure),
        shared_(shared),
        faults_(faults),
        words_(buffer.size()),
        texts_(buffer.size()) {}

  void table(const flatbuffers::Table* table, const Shape& shape, const char* name) {
    if (!claim(table, sizeof(flatbuffers::soffset_t), name)) return;
    faults_.charge(kWorkPerTable);
    for (const Field& field : shape.fields) {
      if (faults_.full()) return;
      const uint8_t* target = table->GetPointer<const uint8_t*>(field.place);
      if (target != nullptr) follow(field, target);
    }
  }

 private:
  [[nodiscard]] size_t place_of(const void* object) const {
    return static_cast<size_t>(static_cast<const uint8_t*>(object) - begin_);
  }

  bool claim(const void* object, size_t size_bytes, const char* name) {
    if (words_.claim(place_of(object), size_bytes)) return true;
    faults_.add(shared_, "a record \"", name, "\" at byte ", place_of(object), " of the ", what_,
                " has bytes of another one");
    return false;
  }

  void follow(const Field& field, const uint8_t* target) {
    if (field.kind == FieldKind::Table)
      return table(reinterpret_cast<const flatbuffers::Table*>(target), *field.element, field.name);
    if (field.kind == FieldKind::Text)
      return text(reinterpret_cast<const flatbuffers::String*>(target), field.name);
    const auto* vector = reinterpret_cast<const flatbuffers::Vector<uint8_t>*>(target);
    const size_t bytes = size_t{vector->size()} * field.element_bytes;
    if (!claim(vector, kWordBytes + bytes, field.name)) return;
    if (bytes > 0 && place_of(vector->Data()) % field.alignment != 0) {
      faults_.add(structure_, "records \"", field.name, "\" at byte ", place_of(vector->Data()),
                  " of the ", what_, " do not lie at a multiple of ", field.alignment, " bytes");
    }
    if (field.kind == FieldKind::Tables) {
      const auto* list =
          reinterpret_cast<const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::Table>>*>(
              vector);
      for (uint32_t i = 0; i < list->size() && !faults_.full(); ++i)
        table(list->Get(i), *field.element, field.name);
    }
    if (field.kind == FieldKind::Texts) {
      const auto* list =
          reinterpret_cast<const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>*>(
              vector);
      for (uint32_t i = 0; i < list->size() && !faults_.full(); ++i) text(list->Get(i), field.name);
    }
  }

  // Equal texts may be stored once.
  void text(const flatbuffers::String* string, const char* name) {
    faults_.charge(kWorkPerVisit);
    if (texts_.has(place_of(string))) return;
    const std::string_view text = PlanView::text(string);
    if (!claim(string, kWordBytes + text.size() + 1, name)) return;
    texts_.claim(place_of(string), 1);
    faults_.charge(kWorkPerTextByte * text.size());
    if (is_plain_text(text)) return;
    faults_.add(VerifyRule::NameForm, "a text \"", name, "\" at byte ", place_of(string),
                " of the ", what_, " is no UTF-8 without control characters: ", quoted(text));
  }

  const uint8_t* begin_;
  const std::string_view what_;
  const VerifyRule structure_;
  const VerifyRule shared_;
  Faults& faults_;
  ClaimedWords words_;
  ClaimedWords texts_;  // where they begin
};

flatbuffers::Verifier verifier_of(std::span<const std::byte> buffer, size_t least_bytes_per_table) {
  return {reinterpret_cast<const uint8_t*>(buffer.data()), buffer.size(), kMaxTableDepth,
          static_cast<uint32_t>(buffer.size() / least_bytes_per_table)};
}

void walk(std::span<const std::byte> buffer, const flatbuffers::TypeTable* root, Walk&& walk) {
  Shapes shapes;
  walk.table(flatbuffers::GetRoot<flatbuffers::Table>(buffer.data()), *shapes.of(root), "root");
}

}  // namespace

void verify_index_structure(std::span<const std::byte> index, Faults& faults) {
  flatbuffers::Verifier verifier = verifier_of(index, kLeastBytesPerIndexTable);
  if (index.size() < 8 || !fb::VerifyPlanBuffer(verifier)) {
    return faults.add(VerifyRule::IndexStructure,
                      "the index section is no well-formed plan index of at most one table per ",
                      kLeastBytesPerIndexTable, " of its ", index.size(), " bytes");
  }
  walk(index, fb::PlanTypeTable(),
       Walk(index, "index", VerifyRule::IndexStructure, VerifyRule::IndexShared, faults));
}

void verify_debug_structure(std::span<const std::byte> debug, Faults& faults) {
  flatbuffers::Verifier verifier = verifier_of(debug, kLeastBytesPerNote);
  if (debug.size() < 8 || !fb::VerifyDebugBuffer(verifier)) {
    return faults.add(VerifyRule::DebugStructure,
                      "the debug section is no well-formed list of notes");
  }
  walk(debug, fb::DebugTypeTable(),
       Walk(debug, "debug notes", VerifyRule::DebugStructure, VerifyRule::DebugStructure, faults));
}

}  // namespace rlx
