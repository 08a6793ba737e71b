// SPDX-License-Identifier: Apache-2.0
// Operators between two values.
#include "runtime/text/jinja_math.h"

#include <array>
#include <cmath>

#include "runtime/base/text.h"

namespace rlx::jinja {
namespace {

constexpr std::array<std::string_view, 7> kSigns = {"+", "-", "*", "/", "//", "%", "**"};

int64_t whole(const Value& value) {
  return value.is(Kind::Bool) ? int64_t{value.boolean()} : value.integer();
}

[[noreturn]] void fail_overflow() {
  throw Fault{"a whole number leaves 64 bits"};
}

int64_t checked_power(int64_t base, int64_t exponent) {
  int64_t out = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(out, base, &out)) fail_overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
  return out;
}

int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == -1 && a == INT64_MIN) fail_overflow();
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value calculate_whole(Operator operation, int64_t a, int64_t b) {
  int64_t out = 0;
  bool overflows = false;
  switch (operation) {
    case Operator::Add:
      overflows = __builtin_add_overflow(a, b, &out);
      break;
    case Operator::Subtract:
      overflows = __builtin_sub_overflow(a, b, &out);
      break;
    case Operator::Multiply:
      overflows = __builtin_mul_overflow(a, b, &out);
      break;
    case Operator::Divide:
      return static_cast<double>(a) / static_cast<double>(b);
    case Operator::FloorDivide:
      return floor_quotient(a, b);
    case Operator::Remainder:
      return b == -1 ? int64_t{0} : a - floor_quotient(a, b) * b;
    default:
      if (b < 0) return std::pow(static_cast<double>(a), static_cast<double>(b));
      return checked_power(a, b);
  }
  if (overflows) fail_overflow();
  return out;
}

// Of the sign of `b`.
double real_remainder(double a, double b) {
  const double out = std::fmod(a, b);
  return out != 0 && (out < 0) != (b < 0) ? out + b : out == 0 ? std::copysign(0.0, b) : out;
}

Value calculate_real(Operator operation, double a, double b) {
  switch (operation) {
    case Operator::Add:
      return a + b;
    case Operator::Subtract:
      return a - b;
    case Operator::Multiply:
      return a * b;
    case Operator::Divide:
      return a / b;
    case Operator::FloorDivide:
      return std::floor(a / b);
    case Operator::Remainder:
      return real_remainder(a, b);
    default:
      return std::pow(a, b);
  }
}

Value calculate_number(Operator operation, const Value& a, const Value& b) {
  const bool divides = operation == Operator::Divide || operation == Operator::FloorDivide ||
                       operation == Operator::Remainder;
  if (divides && as_real(b) == 0) throw Fault{"a number is divided by zero"};
  if (operation == Operator::Power && as_real(a) == 0 && as_real(b) < 0) {
    throw Fault{"zero has no negative powers"};
  }
  if (!a.is(Kind::Float) && !b.is(Kind::Float))
    return calculate_whole(operation, whole(a), whole(b));
  return calculate_real(operation, as_real(a), as_real(b));
}

// "a, b" of a text's % operator.
std::vector<Value> format_arguments(const Value& value) {
  if (value.is(Kind::List) && value.list().is_tuple) return value.list().items;
  return {value};
}

Value repeated_text(const Values& values, const MarkedText& text, uint64_t times) {
  constexpr size_t kBlockBytes = 4096;  // what is short is appended many at once
  if (text.empty()) return values.text("");
  MarkedText block = text;
  uint64_t in_block = 1;
  for (; block.size() < kBlockBytes && in_block < times; ++in_block) block.append(text);
  TextBuilder out(values.budget());
  for (; times >= in_block; times -= in_block) out.append(block);
  out.append_part(block, 0, times * text.size());
  return values.text(out.text());
}

Value repeated(const Values& values, const Value& value, int64_t count) {
  const auto times = static_cast<uint64_t>(std::max<int64_t>(0, count));
  if (value.is(Kind::Text)) return repeated_text(values, value.text(), times);
  const std::vector<Value>& source = value.list().items;
  const uint64_t needed = source.empty() ? 0 : std::min<uint64_t>(times, UINT32_MAX);
  const Charge charge(values.budget(), needed * source.size() * sizeof(Value));
  std::vector<Value> items;
  for (uint64_t i = 0; i < needed; ++i) items.insert(items.end(), source.begin(), source.end());
  return value.list().is_tuple ? values.tuple(std::move(items)) : values.list(std::move(items));
}

bool is_row(const Value& value) {
  return value.is(Kind::Text) || value.is(Kind::List);
}

Value appended(const Values& values, const Value& a, const Value& b) {
  if (a.is(Kind::Text)) {
    MarkedText out = a.text();
    out.append(b.text());
    return values.text(std::move(out));
  }
  std::vector<Value> items = a.list().items;
  items.insert(items.end(), b.list().items.begin(), b.list().items.end());
  return a.list().is_tuple ? values.tuple(std::move(items)) : values.list(std::move(items));
}

bool can_append(const Value& a, const Value& b) {
  if (a.kind() != b.kind() || !is_row(a)) return false;
  return a.is(Kind::Text) || a.list().is_tuple == b.list().is_tuple;
}

}  // namespace

Value calculate(const Values& values, Operator operation, const Value& a, const Value& b) {
  if (is_number(a) && is_number(b)) return calculate_number(operation, a, b);
  if (operation == Operator::Add && can_append(a, b)) return appended(values, a, b);
  if (operation == Operator::Multiply && is_row(a) && is_number(b) && !b.is(Kind::Float)) {
    return repeated(values, a, whole(b));
  }
  if (operation == Operator::Multiply && is_row(b) && is_number(a) && !a.is(Kind::Float)) {
    return repeated(values, b, whole(a));
  }
  if (operation == Operator::Remainder && a.is(Kind::Text)) {
    return values.text(formatted(values, a.text(), format_arguments(b)));
  }
  throw Fault{text_of("cannot calculate ", kind_text(a), " ",
                      kSigns[static_cast<size_t>(operation)], " ", kind_text(b))};
}

bool compare(const Values& values, Operator operation, const Value& a, const Value& b) {
  switch (operation) {
    case Operator::Equal:
      return values.are_equal(a, b);
    case Operator::Unequal:
      return !values.are_equal(a, b);
    case Operator::Less:
      return values.is_less(a, b);
    case Operator::LessOrEqual:
      return values.is_less(a, b) || values.are_equal(a, b);
    case Operator::Greater:
      return values.is_less(b, a);
    case Operator::GreaterOrEqual:
      return values.is_less(b, a) || values.are_equal(a, b);
    case Operator::In:
      return is_in(values, a, b);
    default:
      return !is_in(values, a, b);
  }
}

Value negated(const Value& value) {
  if (value.is(Kind::Float)) return -value.real();
  if (!is_number(value)) throw Fault{text_of("cannot negate ", kind_text(value))};
  if (whole(value) == INT64_MIN) fail_overflow();
  return -whole(value);
}

}  // namespace rlx::jinja
