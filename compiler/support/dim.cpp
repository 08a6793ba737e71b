// SPDX-License-Identifier: Apache-2.0
// Expressions of sizes.
#include "compiler/support/dim.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "compiler/support/check.h"

namespace rlx {
namespace {

__extension__ using Wide = __int128;

thread_local DimWatch* innermost_watch = nullptr;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

int64_t saturated(Wide value) {
  return value > kMost ? kMost : value < kLeast ? kLeast : static_cast<int64_t>(value);
}

DimRange hull(std::initializer_list<Wide> values) {
  return {.least = saturated(std::min(values)), .most = saturated(std::max(values))};
}

Wide floor_div(Wide a, Wide b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

int64_t apply(Dim::Op op, int64_t a, int64_t b) {
  using Op = Dim::Op;
  switch (op) {
    case Op::Add:
      return saturated(static_cast<Wide>(a) + b);
    case Op::Subtract:
      return saturated(static_cast<Wide>(a) - b);
    case Op::Multiply:
      return saturated(static_cast<Wide>(a) * b);
    case Op::Divide:
      return static_cast<int64_t>(floor_div(a, b));
    case Op::Modulo:
      return a - static_cast<int64_t>(floor_div(a, b)) * b;
    case Op::Min:
      return std::min(a, b);
    case Op::Max:
      return std::max(a, b);
    case Op::Symbol:
      break;
  }
  RLX_CHECK(false, "an operator of sizes");
}

DimRange range_of(Dim::Op op, const DimRange& a, const DimRange& b) {
  using Op = Dim::Op;
  const Wide al = a.least;
  const Wide am = a.most;
  switch (op) {
    case Op::Add:
      return hull({al + b.least, am + b.most});
    case Op::Subtract:
      return hull({al - b.most, am - b.least});
    case Op::Multiply:
      return hull({al * b.least, al * b.most, am * b.least, am * b.most});
    case Op::Divide:
      return hull({floor_div(al, b.least), floor_div(al, b.most), floor_div(am, b.least),
                   floor_div(am, b.most)});
    case Op::Modulo:
      return a.least >= 0 && a.most < b.least ? a : DimRange{.least = 0, .most = b.most - 1};
    case Op::Min:
      return {.least = std::min(a.least, b.least), .most = std::min(a.most, b.most)};
    case Op::Max:
      return {.least = std::max(a.least, b.least), .most = std::max(a.most, b.most)};
    case Op::Symbol:
      break;
  }
  RLX_CHECK(false, "an operator of sizes");
}

// A sum of products: coefficient by the sorted factors, each a symbol or another expression by its
// text. Equal sums are equal numbers.
using Factors = std::vector<std::string>;
using Sum = std::map<Factors, int64_t>;

Sum sum_of(const Dim& dim);

Sum product_of(const Sum& a, const Sum& b) {
  Sum product;
  for (const auto& [left, m] : a) {
    for (const auto& [right, n] : b) {
      Factors factors = left;
      factors.insert(factors.end(), right.begin(), right.end());
      std::sort(factors.begin(), factors.end());
      product[factors] += m * n;
    }
  }
  return product;
}

Sum sum_of(const Dim& dim) {
  const Dim::Expression* expression = dim.expression();
  if (expression == nullptr) return {{{}, dim.bound()}};
  if (expression->op == Dim::Op::Multiply)
    return product_of(sum_of(expression->a), sum_of(expression->b));
  if (expression->op != Dim::Op::Add && expression->op != Dim::Op::Subtract)
    return {{{to_string(dim)}, 1}};
  Sum sum = sum_of(expression->a);
  const int64_t sign = expression->op == Dim::Op::Add ? 1 : -1;
  for (const auto& [factors, count] : sum_of(expression->b)) sum[factors] += sign * count;
  return sum;
}

Sum without_zeros(Sum sum) {
  std::erase_if(sum, [](const auto& term) { return term.second == 0; });
  return sum;
}

}  // namespace

Dim Dim::of(const FreeSymbol& symbol) {
  auto expression = std::make_shared<Expression>();
  expression->op = Op::Symbol;
  expression->symbol = symbol;
  expression->range = {.least = symbol.minimum, .most = symbol.maximum};
  return {symbol.maximum, std::move(expression)};
}

DimRange Dim::range() const {
  return expression_ ? expression_->range : DimRange{.least = bound_, .most = bound_};
}

int64_t Dim::known_factor() const {
  if (!expression_) return std::abs(bound_);
  const int64_t a = expression_->a.known_factor();
  const int64_t b = expression_->b.known_factor();
  switch (expression_->op) {
    case Op::Symbol:
      return expression_->symbol.multiple_of;
    case Op::Add:
    case Op::Subtract:
    case Op::Min:
    case Op::Max:
    case Op::Modulo:
      return std::gcd(a, b);
    case Op::Multiply:
      return saturated(static_cast<Wide>(a) * b);
    case Op::Divide:
      return !expression_->b.is_free() && b > 0 && a % b == 0 ? a / b : 1;
  }
  return 1;
}

bool Dim::divides_by(int64_t number) const {
  return known_factor() % number == 0;
}

Dim Dim::combine(Op op, const Dim& a, const Dim& b) {
  const bool divides = op == Op::Divide || op == Op::Modulo;
  if (op == Op::Multiply && (a == 0 || b == 0)) return 0;
  if ((op == Op::Multiply || op == Op::Divide) && b == 1) return a;
  if (op == Op::Multiply && a == 1) return b;
  if ((op == Op::Add || op == Op::Subtract) && b == 0) return a;
  if (op == Op::Add && a == 0) return b;
  if (op == Op::Subtract && is_same(a, b)) return 0;
  if (divides && is_same(a, b)) return op == Op::Divide ? 1 : 0;
  if ((op == Op::Min || op == Op::Max) && is_same(a, b)) return a;
  RLX_CHECK(!divides || b.range().least > 0, "division of " + to_string(a) + " by " + to_string(b));
  if (op == Op::Modulo && !b.is_free() && a.divides_by(b.bound())) return 0;
  // (x * b) / b, with b a factor anywhere in the product.
  if (op == Op::Divide && a.expression_ && a.expression_->op == Op::Multiply) {
    const Dim& left = a.expression_->a;
    const Dim& right = a.expression_->b;
    if (is_same(right, b)) return left;
    if (is_same(left, b)) return right;
    if (!b.is_free() && right.divides_by(b.bound())) return left * (right / b);
    if (!b.is_free() && left.divides_by(b.bound())) return left / b * right;
  }
  const DimRange range = range_of(op, a.range(), b.range());
  if (range.least == range.most) return range.least;
  auto expression = std::make_shared<Expression>();
  expression->op = op;
  expression->a = a;
  expression->b = b;
  expression->range = range;
  return {apply(op, a.bound_, b.bound_), std::move(expression)};
}

bool Dim::is_same(const Dim& a, const Dim& b) {
  if (a.expression_ == b.expression_ && a.bound_ == b.bound_) return true;
  const DimRange x = a.range();
  const DimRange y = b.range();
  if (a.bound_ != b.bound_ || x.most < y.least || y.most < x.least) return false;
  return without_zeros(sum_of(a)) == without_zeros(sum_of(b));
}

void Dim::tell_fixed(const Dim& dim) {
  RLX_CHECK(innermost_watch != nullptr, "a number for the free size " + to_string(dim));
  innermost_watch->hears_(dim);
}

Dim min(const Dim& a, const Dim& b) {
  if (a.range().most <= b.range().least) return a;
  if (b.range().most <= a.range().least) return b;
  return Dim::combine(Dim::Op::Min, a, b);
}

Dim max(const Dim& a, const Dim& b) {
  if (a.range().least >= b.range().most) return a;
  if (b.range().least >= a.range().most) return b;
  return Dim::combine(Dim::Op::Max, a, b);
}

std::optional<Dim> checked_product(const Dim& a, const Dim& b) {
  const auto fits = [](int64_t x, int64_t y) {
    int64_t product = 0;
    return !__builtin_mul_overflow(x, y, &product);
  };
  const DimRange x = a.range();
  const DimRange y = b.range();
  if (!fits(x.least, y.least) || !fits(x.least, y.most) || !fits(x.most, y.least) ||
      !fits(x.most, y.most))
    return std::nullopt;
  return a * b;
}

std::vector<int64_t> numbers_of(const std::vector<Dim>& dims) {
  return {dims.begin(), dims.end()};
}

std::string to_string(const Dim& dim) {
  const Dim::Expression* expression = dim.expression();
  if (expression == nullptr) return std::to_string(dim.bound());
  const auto part = [](const Dim& operand) {
    const Dim::Expression* inner = operand.expression();
    const std::string text = to_string(operand);
    return inner == nullptr || inner->op == Dim::Op::Symbol ? text : "(" + text + ")";
  };
  const std::string a = part(expression->a);
  const std::string b = part(expression->b);
  switch (expression->op) {
    case Dim::Op::Symbol:
      return expression->symbol.name;
    case Dim::Op::Add:
      return a + " + " + b;
    case Dim::Op::Subtract:
      return a + " - " + b;
    case Dim::Op::Multiply:
      return a + " * " + b;
    case Dim::Op::Divide:
      return a + " / " + b;
    case Dim::Op::Modulo:
      return a + " % " + b;
    case Dim::Op::Min:
      return "min(" + a + ", " + b + ")";
    case Dim::Op::Max:
      return "max(" + a + ", " + b + ")";
  }
  RLX_CHECK(false, "an operator of sizes");
}

DimWatch::DimWatch(std::function<void(const Dim&)> hears)
    : hears_(std::move(hears)), outer_(innermost_watch) {
  innermost_watch = this;
}

DimWatch::~DimWatch() {
  innermost_watch = outer_;
}

}  // namespace rlx
