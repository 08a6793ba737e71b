// SPDX-License-Identifier: Apache-2.0
// Edits that know the schema and nothing of what fields mean.
#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/fuzz/plans/mutant_builder.h"

namespace rlx::test {
namespace {

uint64_t mask_of(uint32_t bytes) {
  return bytes >= 8 ? UINT64_MAX : (uint64_t{1} << 8 * bytes) - 1;
}

template <class T>
const T& pick(Dice& dice, const std::vector<T>& list) {
  return list[dice.below(list.size())];
}

}  // namespace

const Node* MutantBuilder::find(const Node& root, const Site& site) {
  const Node* node = &root;
  for (const uint32_t step : site.path) {
    if (step >= node->kids.size()) return nullptr;
    node = &node->kids[step];
  }
  const bool is_inside = site.vector == nullptr ||
                         node->bytes.size() >= (site.element + uint64_t{1}) * site.vector->bytes;
  return is_inside ? node : nullptr;
}

Node* MutantBuilder::find(Node& root, const Site& site) {
  return const_cast<Node*>(find(std::as_const(root), site));
}

uint64_t MutantBuilder::number_at(const Node& node, const Site& site) {
  return site.vector == nullptr ? node.bits
                                : get(node, site.element, site.vector->bytes, *site.type);
}

void MutantBuilder::set_number(Node& node, const Site& site, uint64_t bits) {
  if (site.vector != nullptr) return set(node, site.element, site.vector->bytes, *site.type, bits);
  node.kind = NodeKind::Scalar;
  node.bits = bits & mask_of(site.type->bytes);
}

uint64_t MutantBuilder::new_number(const FieldType& type, uint64_t old,
                                   const PlanMutator::Tree& tree, const std::vector<Site>& alike,
                                   const Node& root) {
  const uint64_t most = mask_of(type.bytes);
  if (!type.names.empty() && dice_.chance(3, 4))
    return static_cast<uint64_t>(pick(dice_, type.names));
  static constexpr uint64_t kSteps[] = {1, 1, 1, 2, 3, 4, 8, 16, 64, 256, 4096};
  const uint64_t step = kSteps[dice_.below(std::size(kSteps))];
  switch (dice_.below(14)) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return most - dice_.below(3);
    case 3:
      return (uint64_t{1} << dice_.below(8 * type.bytes)) - dice_.below(2);
    case 4:
    case 5:
      return old + step;
    case 6:
    case 7:
      return old - step;
    case 8:
      return dice_.chance(1, 2) ? old * 2 : old / 2;
    case 9:
      return old ^ uint64_t { 1 } << dice_.below(8 * type.bytes);
    case 10:
    case 11: {
      const Site& other = pick(dice_, alike);
      const Node* node = find(root, other);
      return node == nullptr ? old : number_at(*node, other);
    }
    case 12:
      return tree.scalars.empty() ? dice_.below(16) : pick(dice_, tree.scalars);
    default:
      return dice_.next() & most;
  }
}

std::string MutantBuilder::new_text(const std::string& old) {
  switch (dice_.below(8)) {
    case 0:
      return {};
    case 1:
      return std::string(dice_.chance(1, 2) ? 256 : 257, 'n');
    case 2:
      return old + "\xff";
    case 3:
      return old + "\x1b[2J\n";
    case 4:
      return old + std::string(1, '\0') + "tail";
    case 5:
      return std::string(4097, 'n');
    case 6:
      return old + "\xc2";
    default:
      return old + "'\"<&";
  }
}

// Drops, doubles, moves and replaces the elements of a list.
void MutantBuilder::edit_elements(Node& node, uint32_t element_bytes) {
  const bool tables = node.kind == NodeKind::Tables || node.kind == NodeKind::Texts;
  const size_t size = tables ? node.kids.size() : node.bytes.size() / element_bytes;
  const size_t a = dice_.below(size);
  const size_t b = dice_.below(size);
  const auto at = [&](size_t i) {
    return node.bytes.begin() + static_cast<ptrdiff_t>(i * element_bytes);
  };
  const auto kid_at = [&](size_t i) { return node.kids.begin() + static_cast<ptrdiff_t>(i); };
  const auto insert = [&](size_t from) {
    if (tables) {
      const Node copy = node.kids[from];
      node.kids.insert(kid_at(b), copy);
    } else {
      const std::vector<std::byte> copy(at(from), at(from + 1));
      node.bytes.insert(at(b), copy.begin(), copy.end());
    }
  };
  if (size == 0) {
    if (!tables) node.bytes.resize(element_bytes);
    return;
  }
  switch (dice_.below(6)) {
    case 0:
      if (tables)
        node.kids.erase(kid_at(a));
      else
        node.bytes.erase(at(a), at(a + 1));
      break;
    case 1:
      insert(a);
      break;
    case 2:
      if (tables)
        std::swap(node.kids[a], node.kids[b]);
      else
        std::swap_ranges(at(a), at(a + 1), at(b));
      break;
    case 3:
      if (tables)
        node.kids.resize(a);
      else
        node.bytes.resize(a * element_bytes);
      break;
    case 4:
      if (tables)
        node.kids[b] = Node(node.kids[a]);
      else
        std::copy(at(a), at(a + 1), at(b));
      break;
    default:
      if (tables)
        std::rotate(node.kids.begin(), kid_at(a), node.kids.end());
      else
        std::rotate(node.bytes.begin(), at(a), node.bytes.end());
  }
}

void MutantBuilder::edit_site(const PlanMutator::Tree& tree, Node& root) {
  const std::string& name = pick(dice_, tree.site_names);
  const std::vector<Site>& alike = tree.sites.at(name);
  const Site& site = pick(dice_, alike);
  Node* node = find(root, site);
  if (node == nullptr) return;
  const FieldType& type = *site.type;
  const bool removable =
      site.vector == nullptr && (type.kind != FieldKind::Scalar || type.optional);
  if (removable && dice_.chance(1, 12)) {
    node->kind = NodeKind::Absent;
    return note(name, ": absent");
  }
  if (type.kind == FieldKind::Scalar) {
    const uint64_t old = number_at(*node, site);
    set_number(*node, site, new_number(type, old, tree, alike, root));
    if (number_at(*node, site) == old) return;
    return note(name, ", one of ", alike.size(), ": ", old, " becomes ", number_at(*node, site));
  }
  if (type.kind == FieldKind::Text) {
    const Node* other = find(root, pick(dice_, alike));
    const std::string old(reinterpret_cast<const char*>(node->bytes.data()), node->bytes.size());
    const std::string text = new_text(old);
    node->kind = NodeKind::Text;
    if (dice_.chance(1, 3) && other != nullptr) {
      node->bytes = std::vector<std::byte>(other->bytes);
    } else {
      node->bytes.resize(text.size());
      if (!text.empty()) std::memcpy(node->bytes.data(), text.data(), text.size());
    }
    return note(name, ": another text");
  }
  if (node->kind == NodeKind::Absent) {
    if (type.kind == FieldKind::Tables) node->kind = NodeKind::Tables;
    if (type.kind == FieldKind::Texts) node->kind = NodeKind::Texts;
    if (type.kind == FieldKind::Scalars || type.kind == FieldKind::Structs)
      node->kind = NodeKind::Bytes;
  }
  if (type.kind == FieldKind::Scalars && !node->bytes.empty() && dice_.chance(2, 3)) {
    const FieldType number{.name = {}, .bytes = type.bytes, .names = {}};
    const size_t element = dice_.below(node->bytes.size() / type.bytes);
    const uint64_t old = get(*node, element, type.bytes, number);
    const uint64_t made = new_number(number, old, tree, alike, root);
    set(*node, element, type.bytes, number, made);
    return note(name, ", element ", element, ": ", old, " becomes ", made & mask_of(type.bytes));
  }
  const bool is_list = type.kind == FieldKind::Scalars || type.kind == FieldKind::Texts ||
                       type.kind == FieldKind::Structs || type.kind == FieldKind::Tables;
  if (is_list && node->kind != NodeKind::Absent) {
    edit_elements(*node, type.bytes);
    note(name, ": elements moved");
  }
}

void MutantBuilder::edit_field() {
  edit_site(seed_.index, index_);
}

void MutantBuilder::edit_debug() {
  if (has_debug_) edit_site(seed_.debug, debug_);
}

// A list of the index, whichever: drops, doubles and so on.
void MutantBuilder::edit_list() {
  for (int attempt = 0; attempt < 8; ++attempt) {
    const std::string& name = pick(dice_, seed_.index.site_names);
    const Site& site = pick(dice_, seed_.index.sites.at(name));
    const FieldKind kind = site.type->kind;
    const bool is_list =
        kind == FieldKind::Scalars || kind == FieldKind::Structs || kind == FieldKind::Tables;
    Node* node = is_list && site.vector == nullptr ? find(index_, site) : nullptr;
    if (node == nullptr || node->kind == NodeKind::Absent) continue;
    edit_elements(*node, site.type->bytes);
    return note(name, ": elements moved");
  }
}

// A field, whatever it holds, as it is elsewhere in this plan or in another.
void MutantBuilder::take_from_elsewhere() {
  const bool other_plan = dice_.chance(1, 2);
  const std::string& name = pick(dice_, seed_.index.site_names);
  const auto found = (other_plan ? donor_ : seed_).index.sites.find(name);
  if (found == (other_plan ? donor_ : seed_).index.sites.end()) return;
  const Site& to = pick(dice_, seed_.index.sites.at(name));
  const Site& from = pick(dice_, found->second);
  Node* target = find(index_, to);
  const Node* source = find((other_plan ? donor_ : seed_).index.root, from);
  if (target == nullptr || source == nullptr) return;
  if (to.vector == nullptr) {
    const Node copy = *source;
    *target = copy;
  } else {
    set_number(*target, to, number_at(*source, from));
  }
  note(name, ": as elsewhere in ", other_plan ? donor_.name : "this plan");
}

}  // namespace rlx::test
