// SPDX-License-Identifier: Apache-2.0
// Tests: what stands behind `is`.
#include <algorithm>
#include <array>

#include "runtime/base/text.h"
#include "runtime/text/jinja_builtin.h"
#include "runtime/text/jinja_math.h"

namespace rlx::jinja {
namespace {

template <Kind wanted>
Value is_kind(const Call& call) {
  return call.subject().is(wanted);
}

Value is_defined(const Call& call) {
  return !call.subject().is(Kind::Undefined);
}

Value is_a_number(const Call& call) {
  return is_number(call.subject());
}

template <bool wanted>
Value is_boolean(const Call& call) {
  return call.subject().is(Kind::Bool) && call.subject().boolean() == wanted;
}

bool has_items(const Value& value) {
  return value.is(Kind::Undefined) || value.is(Kind::Text) || value.is(Kind::List) ||
         value.is(Kind::Dict);
}

Value is_iterable(const Call& call) {
  return has_items(call.subject()) || call.subject().is(Kind::Loop);
}

Value is_sequence(const Call& call) {
  return has_items(call.subject());
}

template <Operator operation>
Value is_as(const Call& call) {
  return compare(call.values(), operation, call.subject(), call.wanted(0));
}

// Values of one place in memory; plain ones by kind and value.
Value is_same(const Call& call) {
  const Value& a = call.subject();
  const Value& b = call.wanted(0);
  if (a.kind() != b.kind()) return false;
  if (a.is(Kind::List)) return &a.list() == &b.list();
  if (a.is(Kind::Dict)) return &a.dict() == &b.dict();
  return call.values().are_equal(a, b);
}

bool is_multiple(const Call& call, const Value& of) {
  const Value rest = calculate(call.values(), Operator::Remainder, call.subject(), of);
  return is_number(rest) && as_real(rest) == 0;
}

Value is_even(const Call& call) {
  return is_multiple(call, int64_t{2});
}

Value is_odd(const Call& call) {
  return !is_multiple(call, int64_t{2});
}

Value is_divisible(const Call& call) {
  return is_multiple(call, call.wanted(0));
}

// Some letters, all of that case.
template <Case wanted>
Value has_case(const Call& call) {
  const MarkedText text = call.values().str(call.subject());
  const Case other = wanted == Case::Upper ? Case::Lower : Case::Upper;
  return with_case(text, wanted).bytes() == text.bytes() &&
         with_case(text, other).bytes() != text.bytes();
}

Value is_filter(const Call& call) {
  return call.subject().is(Kind::Text) && find_filter(call.subject().text().bytes()) != nullptr;
}

Value is_test(const Call& call) {
  return call.subject().is(Kind::Text) && find_test(call.subject().text().bytes()) != nullptr;
}

constexpr std::array kTests = {
    Builtin{"!=", "other", is_as<Operator::Unequal>},
    Builtin{"<", "other", is_as<Operator::Less>},
    Builtin{"<=", "other", is_as<Operator::LessOrEqual>},
    Builtin{"==", "other", is_as<Operator::Equal>},
    Builtin{">", "other", is_as<Operator::Greater>},
    Builtin{">=", "other", is_as<Operator::GreaterOrEqual>},
    Builtin{"boolean", "", is_kind<Kind::Bool>},
    Builtin{"callable", "", is_kind<Kind::Function>},
    Builtin{"defined", "", is_defined},
    Builtin{"divisibleby", "num", is_divisible},
    Builtin{"eq", "other", is_as<Operator::Equal>},
    Builtin{"equalto", "other", is_as<Operator::Equal>},
    Builtin{"even", "", is_even},
    Builtin{"false", "", is_boolean<false>},
    Builtin{"filter", "", is_filter},
    Builtin{"float", "", is_kind<Kind::Float>},
    Builtin{"ge", "other", is_as<Operator::GreaterOrEqual>},
    Builtin{"greaterthan", "other", is_as<Operator::Greater>},
    Builtin{"gt", "other", is_as<Operator::Greater>},
    Builtin{"in", "seq", is_as<Operator::In>},
    Builtin{"integer", "", is_kind<Kind::Integer>},
    Builtin{"iterable", "", is_iterable},
    Builtin{"le", "other", is_as<Operator::LessOrEqual>},
    Builtin{"lessthan", "other", is_as<Operator::Less>},
    Builtin{"lower", "", has_case<Case::Lower>},
    Builtin{"lt", "other", is_as<Operator::Less>},
    Builtin{"mapping", "", is_kind<Kind::Dict>},
    Builtin{"ne", "other", is_as<Operator::Unequal>},
    Builtin{"none", "", is_kind<Kind::None>},
    Builtin{"number", "", is_a_number},
    Builtin{"odd", "", is_odd},
    Builtin{"sameas", "other", is_same},
    Builtin{"sequence", "", is_sequence},
    Builtin{"string", "", is_kind<Kind::Text>},
    Builtin{"test", "", is_test},
    Builtin{"true", "", is_boolean<true>},
    Builtin{"undefined", "", is_kind<Kind::Undefined>},
    Builtin{"upper", "", has_case<Case::Upper>},
};

}  // namespace

std::span<const Builtin> test_table() {
  return kTests;
}

}  // namespace rlx::jinja
