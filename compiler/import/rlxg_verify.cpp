// SPDX-License-Identifier: Apache-2.0
// The walk over a graph flatbuffer. The verifier that flatc generates visits a vector again for
// every reference to it, so a megabyte of references to one long vector would hold it for minutes;
// this one uses the same library checks for each step and charges each visit against a budget
// proportional to the file.
#include "compiler/import/rlxg_verify.h"

#include <flatbuffers/flatbuffers.h>

#include <array>

#include "compiler/import/source_graph.h"
#include "schema/graph_generated.h"

namespace rlx {
namespace {

using flatbuffers::Table;
using Field = flatbuffers::voffset_t;

// Work and copied bytes that a file may cause, per byte of it. A file that shares nothing needs
// less than 1 for its own bytes and about 5 for names of 256 bytes that are used by many nodes
// through one shared string.
constexpr uint64_t kBudgetPerByte = 64;
constexpr uint64_t kBudgetFloor = 1 << 20;
// Tables inside each other: two for each body inside another, and what is around and in them.
constexpr uint32_t kMostDepth = 2 * kMaxBodyDepth + 8;

class Walk {
 public:
  explicit Walk(std::span<const std::byte> bytes)
      : base_(reinterpret_cast<const uint8_t*>(bytes.data())),
        verifier_(base_, bytes.size(), kMostDepth, UINT32_MAX),
        budget_(kBudgetFloor + kBudgetPerByte * bytes.size()) {}

  std::optional<std::string> run() {
    const auto root = verifier_.VerifyOffset(size_t{0});
    if (root != 0 && graph(reinterpret_cast<const Table*>(base_ + root))) return std::nullopt;
    return where_;
  }

 private:
  bool charge(uint64_t cost) {
    if (cost > budget_) return false;
    budget_ -= cost;
    return true;
  }

  template <typename Body>
  bool table(const Table* t, Body body) {
    if (!charge(8) || !t->VerifyTableStart(verifier_) || !body()) return false;
    return verifier_.EndTable();
  }
  template <typename T>
  bool scalar(const Table* t, Field field) {
    return t->VerifyField<T>(verifier_, field, sizeof(T));
  }
  bool string(const Table* t, Field field, bool is_required = false) {
    if (!(is_required ? t->VerifyOffsetRequired(verifier_, field)
                      : t->VerifyOffset(verifier_, field))) {
      return false;
    }
    return text(t->GetPointer<const flatbuffers::String*>(field));
  }
  bool text(const flatbuffers::String* text) {
    return verifier_.VerifyString(text) && charge(text ? 4 + text->size() : 0);
  }
  template <typename T>
  bool vector(const Table* t, Field field, uint64_t item_cost, bool is_required) {
    if (!(is_required ? t->VerifyOffsetRequired(verifier_, field)
                      : t->VerifyOffset(verifier_, field))) {
      return false;
    }
    const auto* items = t->GetPointer<const flatbuffers::Vector<T>*>(field);
    return verifier_.VerifyVector(items) && charge(items ? item_cost * items->size() : 0);
  }
  bool strings(const Table* t, Field field) {
    using Offset = flatbuffers::Offset<flatbuffers::String>;
    if (!vector<Offset>(t, field, 4, true)) return false;
    const auto* items = t->GetPointer<const flatbuffers::Vector<Offset>*>(field);
    for (uint32_t i = 0; i < items->size(); ++i) {
      if (!item_fits(items, i) || !text(items->Get(i))) return false;
    }
    return true;
  }
  // A table of a vector; `label` names the vector where the fault is told.
  template <typename Visit>
  bool tables(const Table* t, Field field, const char* label, bool is_required, Visit visit) {
    using Offset = flatbuffers::Offset<Table>;
    if (!vector<Offset>(t, field, 4, is_required)) return false;
    const auto* items = t->GetPointer<const flatbuffers::Vector<Offset>*>(field);
    for (uint32_t i = 0; items && i < items->size(); ++i) {
      if (item_fits(items, i) && visit(items->Get(i))) continue;
      where_ = std::string(label) + "/" + std::to_string(i) + (where_.empty() ? "" : "/" + where_);
      return false;
    }
    return true;
  }
  // The offset of item i leads to a place inside the buffer.
  template <typename T>
  bool item_fits(const flatbuffers::Vector<flatbuffers::Offset<T>>* items, uint32_t i) {
    const auto slot =
        static_cast<size_t>(items->Data() - base_) + i * sizeof(flatbuffers::uoffset_t);
    return verifier_.VerifyOffset(slot) != 0;
  }
  // The union value: a table whose only field `field` of the table's type is checked by `visit`.
  template <typename Visit>
  bool union_table(const Table* t, Field field, Visit visit) {
    if (!t->VerifyOffsetRequired(verifier_, field)) return false;
    return visit(t->GetPointer<const Table*>(field));
  }

  bool dim(const Table* t) {
    return table(
        t, [&] { return scalar<int64_t>(t, fb::Dim::VT_SIZE) && string(t, fb::Dim::VT_SYMBOL); });
  }
  bool symbol(const Table* t) {
    using S = fb::GraphSymbol;
    return table(t, [&] {
      return string(t, S::VT_NAME, true) && scalar<int64_t>(t, S::VT_MIN) &&
             scalar<int64_t>(t, S::VT_MAX) && scalar<int64_t>(t, S::VT_MULTIPLE_OF);
    });
  }

  bool data(const Table* t, fb::Data type) {
    switch (type) {
      case fb::Data::NONE:
        return false;
      case fb::Data::Bytes:
        return table(t, [&] { return vector<uint8_t>(t, fb::Bytes::VT_DATA, 0, true); });
      case fb::Data::NpyFile:
        return table(t, [&] { return string(t, fb::NpyFile::VT_PATH, true); });
      case fb::Data::SafetensorsFile:
        return table(t, [&] {
          return string(t, fb::SafetensorsFile::VT_PATH, true) &&
                 string(t, fb::SafetensorsFile::VT_TENSOR, true);
        });
      case fb::Data::RawFile:
        return table(t, [&] {
          return string(t, fb::RawFile::VT_PATH, true) &&
                 scalar<uint64_t>(t, fb::RawFile::VT_OFFSET);
        });
      case fb::Data::Splat:
        return table(t, [&] { return scalar<double>(t, fb::Splat::VT_VALUE); });
      case fb::Data::Random:
        return random(t);
    }
    return false;  // a type that this schema does not have
  }
  bool random(const Table* t) {
    using R = fb::Random;
    return table(t, [&] {
      return string(t, R::VT_DISTRIBUTION, true) && scalar<double>(t, R::VT_A) &&
             scalar<double>(t, R::VT_B) && scalar<uint64_t>(t, R::VT_SEED) &&
             scalar<uint32_t>(t, R::VT_STREAM);
    });
  }

  bool tensor(const Table* t) {
    using T = fb::Tensor;
    return table(t, [&] {
      if (!string(t, T::VT_NAME, true) || !string(t, T::VT_DTYPE, true) ||
          !tables(t, T::VT_SHAPE, "shape", true, [&](const Table* d) { return dim(d); }) ||
          !scalar<uint8_t>(t, T::VT_DATA_TYPE)) {
        return false;
      }
      const auto type = static_cast<fb::Data>(t->GetField<uint8_t>(T::VT_DATA_TYPE, 0));
      if (type == fb::Data::NONE) return true;
      return union_table(t, T::VT_DATA, [&](const Table* d) { return data(d, type); });
    });
  }

  bool value(const Table* t, fb::AttributeValue type) {
    return table(t, [&] {
      switch (type) {
        case fb::AttributeValue::NONE:
          return false;
        case fb::AttributeValue::IntValue:
          return scalar<int64_t>(t, fb::IntValue::VT_VALUE);
        case fb::AttributeValue::FloatValue:
          return scalar<double>(t, fb::FloatValue::VT_VALUE);
        case fb::AttributeValue::BoolValue:
          return scalar<uint8_t>(t, fb::BoolValue::VT_VALUE);
        case fb::AttributeValue::StringValue:
          return string(t, fb::StringValue::VT_VALUE, true);
        case fb::AttributeValue::IntsValue:
          return vector<int64_t>(t, fb::IntsValue::VT_VALUE, 8, true);
        case fb::AttributeValue::FloatsValue:
          return vector<double>(t, fb::FloatsValue::VT_VALUE, 8, true);
        case fb::AttributeValue::StringsValue:
          return strings(t, fb::StringsValue::VT_VALUE);
        case fb::AttributeValue::DimsValue:
          return tables(t, fb::DimsValue::VT_VALUE, "value", true,
                        [&](const Table* d) { return dim(d); });
      }
      return false;
    });
  }
  bool attribute(const Table* t) {
    using A = fb::Attribute;
    return table(t, [&] {
      if (!string(t, A::VT_NAME, true) || !scalar<uint8_t>(t, A::VT_VALUE_TYPE)) return false;
      const auto type = static_cast<fb::AttributeValue>(t->GetField<uint8_t>(A::VT_VALUE_TYPE, 0));
      return union_table(t, A::VT_VALUE, [&](const Table* v) { return value(v, type); });
    });
  }
  bool node(const Table* t) {
    using N = fb::Node;
    return table(t, [&] {
      return string(t, N::VT_NAME, true) && string(t, N::VT_OP, true) && strings(t, N::VT_INPUTS) &&
             strings(t, N::VT_OUTPUTS) && string(t, N::VT_SOURCE) &&
             tables(t, N::VT_ATTRIBUTES, "attributes", false,
                    [&](const Table* a) { return attribute(a); }) &&
             tables(t, N::VT_BODIES, "bodies", false, [&](const Table* b) { return body(b); });
    });
  }
  bool body(const Table* t) {
    using B = fb::Body;
    return table(t, [&] {
      return string(t, B::VT_NAME, true) && strings(t, B::VT_INPUTS) &&
             tables(t, B::VT_NODES, "nodes", true, [&](const Table* n) { return node(n); }) &&
             strings(t, B::VT_OUTPUTS);
    });
  }
  bool entry(const Table* t) {
    using E = fb::GraphEntry;
    return table(t, [&] {
      return string(t, E::VT_NAME, true) &&
             tables(t, E::VT_INPUTS, "inputs", true, [&](const Table* i) { return tensor(i); }) &&
             tables(t, E::VT_NODES, "nodes", true, [&](const Table* n) { return node(n); }) &&
             strings(t, E::VT_OUTPUTS);
    });
  }
  bool graph(const Table* t) {
    using G = fb::Graph;
    const auto weights = [&](Field field, const char* label) {
      return tables(t, field, label, false, [&](const Table* w) { return tensor(w); });
    };
    return table(t, [&] {
      return scalar<uint32_t>(t, G::VT_VERSION) && string(t, G::VT_NAME) &&
             string(t, G::VT_PRODUCER) &&
             tables(t, G::VT_SYMBOLS, "symbols", false,
                    [&](const Table* s) { return symbol(s); }) &&
             weights(G::VT_PARAMS, "params") && weights(G::VT_CONSTANTS, "constants") &&
             weights(G::VT_STATES, "states") &&
             tables(t, G::VT_ENTRIES, "entries", true, [&](const Table* e) { return entry(e); }) &&
             vector<uint8_t>(t, G::VT_TEXT, 1, false);
    });
  }

  const uint8_t* base_;
  flatbuffers::Verifier verifier_;
  uint64_t budget_;
  std::string where_;
};

}  // namespace

std::optional<std::string> find_rlxg_fault(std::span<const std::byte> bytes) {
  return Walk(bytes).run();
}

}  // namespace rlx
