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
#include "compiler/support/required_size.h"

namespace rlx {
namespace {

__extension__ using Wide = __int128;

thread_local DimWatch* innermost_watch = nullptr;
thread_local bool orders_are_decided = false;

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

bool is_number(const Dim& dim, int64_t number) {
  return !dim.is_free() && dim.bound() == number;
}

bool is_number(const DimRange& range) {
  return range.least == range.most;
}

// min(max(x, 0), 0), as required_at_least() makes it: 0 that has a value only where x is not
// negative. It counts for nothing but stays in what it is added to.
bool is_requirement(Dim::Op op, const Dim& a, const Dim& b) {
  const Dim::Expression* inner = a.expression();
  return op == Dim::Op::Min && is_number(b, 0) && inner != nullptr && inner->op == Dim::Op::Max &&
         is_number(inner->b, 0) && inner->a.range().least < 0;
}

// In lowest terms, above a positive number: quotients without rest are fractions of their parts.
struct Fraction {
  Wide above = 0;
  Wide below = 1;
  bool operator==(const Fraction&) const = default;
};

Fraction reduced(Wide above, Wide below) {
  Wide a = above < 0 ? -above : above;
  Wide b = below;
  while (b != 0) a = std::exchange(b, a % b);
  return {.above = above / a, .below = below / a};
}

Fraction operator+(const Fraction& a, const Fraction& b) {
  return reduced(a.above * b.below + b.above * a.below, a.below * b.below);
}
Fraction operator*(const Fraction& a, const Fraction& b) {
  return reduced(a.above * b.above, a.below * b.below);
}

// A sum of products: coefficient by the sorted factors, each a symbol or another expression by its
// text. Equal sums are equal numbers.
using Factors = std::vector<std::string>;
using Sum = std::map<Factors, Fraction>;

Sum sum_of(const Dim& dim);

Sum product_of(const Sum& a, const Sum& b) {
  Sum product;
  for (const auto& [left, m] : a) {
    for (const auto& [right, n] : b) {
      Factors factors = left;
      factors.insert(factors.end(), right.begin(), right.end());
      std::sort(factors.begin(), factors.end());
      Fraction& sum = product[factors];
      sum = sum + m * n;
    }
  }
  return product;
}

// floor(sum / divisor): what of the sum leaves no rest stands for itself, and one expression for
// what is left, so that (x - 1) / 4 + 1 is (x + 3) / 4.
Sum quotient_of(const Sum& sum, int64_t divisor) {
  Sum quotient;
  std::string rest;
  for (const auto& [factors, count] : sum) {
    Wide left = count.above;
    if (count.below == 1 && divisor > 0) {
      const Wide whole =
          factors.empty() || count.above % divisor == 0 ? floor_div(count.above, divisor) : 0;
      left = count.above - whole * divisor;
      if (whole != 0) quotient[factors] = {.above = whole};
    }
    if (left == 0) continue;
    rest += " " + std::to_string(saturated(left)) + ":" + std::to_string(saturated(count.below));
    for (const std::string& factor : factors) rest += "*" + factor;
  }
  if (rest.empty()) return quotient;
  Fraction& expression = quotient[{"(" + rest + ") / " + std::to_string(divisor)}];
  expression = expression + Fraction{.above = 1};
  return quotient;
}

// Of a quotient by a number that leaves no rest.
bool is_exact(const Dim::Expression& expression) {
  const Dim& divisor = expression.b;
  return expression.op == Dim::Op::Divide && !divisor.is_free() && divisor.bound() > 0 &&
         expression.a.divides_by(divisor.bound());
}

Sum sum_of(const Dim& dim) {
  const Dim::Expression* expression = dim.expression();
  if (expression == nullptr || is_number(expression->range)) return {{{}, {.above = dim.bound()}}};
  if (expression->op == Dim::Op::Multiply)
    return product_of(sum_of(expression->a), sum_of(expression->b));
  if (is_exact(*expression))
    return product_of(sum_of(expression->a), {{{}, {.above = 1, .below = expression->b.bound()}}});
  if (expression->op == Dim::Op::Divide && !expression->b.is_free())
    return quotient_of(sum_of(expression->a), expression->b.bound());
  if (expression->op != Dim::Op::Add && expression->op != Dim::Op::Subtract)
    return {{{to_string(dim)}, {.above = 1}}};
  Sum sum = sum_of(expression->a);
  const Fraction sign{.above = expression->op == Dim::Op::Add ? 1 : -1};
  for (const auto& [factors, count] : sum_of(expression->b)) {
    Fraction& total = sum[factors];
    total = total + sign * count;
  }
  return sum;
}

// A sum, difference, product or quotient of a size and a number, by the operator.
const Dim::Expression* with_number(const Dim& dim, Dim::Op op) {
  const Dim::Expression* expression = dim.expression();
  const bool fits = expression != nullptr && expression->op == op && !expression->b.is_free();
  return fits ? expression : nullptr;
}

// a + number, of an `a` that ends in a number: one number behind it. The same values are below 0,
// where a plan has none. nullopt where that cannot be.
std::optional<Dim> joined_sum(const Dim& a, int64_t number) {
  int64_t sum = 0;
  if (const Dim::Expression* added = with_number(a, Dim::Op::Add)) {
    if (__builtin_add_overflow(added->b.bound(), number, &sum)) return std::nullopt;
    return added->a + sum;
  }
  const Dim::Expression* taken = with_number(a, Dim::Op::Subtract);
  if (taken == nullptr || __builtin_sub_overflow(number, taken->b.bound(), &sum))
    return std::nullopt;
  const bool never_below = taken->a.range().least >= taken->b.bound();
  return number < 0 || never_below ? std::optional(taken->a + sum) : std::nullopt;
}

// (x + n) / number with an x that it divides: x / number + n / number, rounded down.
std::optional<Dim> quotient_of_parts(const Dim& a, int64_t number) {
  const Dim::Expression* added = with_number(a, Dim::Op::Add);
  const Dim::Expression* taken = with_number(a, Dim::Op::Subtract);
  if (added != nullptr && added->a.divides_by(number))
    return added->a / number + static_cast<int64_t>(floor_div(added->b.bound(), number));
  const bool never_below = taken != nullptr && taken->a.range().least >= taken->b.bound();
  if (never_below && taken->a.divides_by(number))
    return taken->a / number + static_cast<int64_t>(floor_div(-taken->b.bound(), number));
  return std::nullopt;
}

// (x / m) / number, x not negative.
std::optional<Dim> quotient_of_quotient(const Dim& a, int64_t number) {
  const Dim::Expression* divided = with_number(a, Dim::Op::Divide);
  int64_t product = 0;
  if (divided == nullptr || divided->a.range().least < 0 ||
      __builtin_mul_overflow(divided->b.bound(), number, &product))
    return std::nullopt;
  return divided->a / product;
}

// (x / m) * number with an x that m divides, and one of the two numbers the other.
std::optional<Dim> product_of_quotient(const Dim& a, int64_t number) {
  const Dim::Expression* divided = with_number(a, Dim::Op::Divide);
  if (divided == nullptr || number <= 0) return std::nullopt;
  const int64_t divisor = divided->b.bound();
  if (!divided->a.divides_by(divisor)) return std::nullopt;
  if (number % divisor == 0) return divided->a * (number / divisor);
  return divisor % number == 0 ? std::optional(divided->a / (divisor / number)) : std::nullopt;
}

// The operation on a size and a number in fewer steps, where there are such.
std::optional<Dim> in_fewer_steps(Dim::Op op, const Dim& a, int64_t number) {
  switch (op) {
    case Dim::Op::Add:
      return joined_sum(a, number);
    case Dim::Op::Subtract:
      return number == kLeast ? std::nullopt : joined_sum(a, -number);
    case Dim::Op::Multiply:
      return product_of_quotient(a, number);
    case Dim::Op::Divide: {
      const std::optional<Dim> parts = quotient_of_parts(a, number);
      return parts ? parts : quotient_of_quotient(a, number);
    }
    default:
      return std::nullopt;
  }
}

Sum without_zeros(Sum sum) {
  std::erase_if(sum, [](const auto& term) { return term.second.above == 0; });
  return sum;
}

// a / b where b divides a at every value of the symbols because it is a factor; nullopt elsewhere.
std::optional<Dim> quotient_by_factor(const Dim& a, const Dim& b) {
  if (is_number(b, 1)) return a;
  if (a == b && !has_requirement(a) && !has_requirement(b)) return 1;
  if (!a.is_free() && !b.is_free())
    return a.bound() % b.bound() == 0 ? std::optional<Dim>(a.bound() / b.bound()) : std::nullopt;
  if (const auto* product = b.expression();
      product != nullptr && product->op == Dim::Op::Multiply) {
    const auto once = quotient_by_factor(a, product->a);
    return once ? quotient_by_factor(*once, product->b) : std::nullopt;
  }
  const Dim::Expression* expression = a.expression();
  if (expression == nullptr || expression->op == Dim::Op::Symbol) return std::nullopt;
  const bool is_sum = expression->op == Dim::Op::Add || expression->op == Dim::Op::Subtract;
  if (!is_sum && expression->op != Dim::Op::Multiply) return std::nullopt;
  // Of a number, what the left side has of it.
  const Dim part =
      is_sum || b.is_free() ? b : Dim(std::gcd(expression->a.known_factor(), b.bound()));
  const auto left = quotient_by_factor(expression->a, part);
  const auto right = quotient_by_factor(expression->b, is_sum ? b : b / part);
  if (is_sum && left && right)
    return expression->op == Dim::Op::Add ? *left + *right : *left - *right;
  if (is_sum) return std::nullopt;
  if (left && right) return *left * *right;
  if (!b.is_free()) return std::nullopt;
  const auto of_right = quotient_by_factor(expression->b, b);
  return of_right ? std::optional<Dim>(expression->a * *of_right) : std::nullopt;
}

// x of a + (x - a), (x - a) + a, (x + a) - a and (a + x) - a; nullopt of others.
std::optional<Dim> what_is_left(Dim::Op op, const Dim& a, const Dim& b) {
  const auto are_same = [](const Dim& x, const Dim& y) {
    return x.is_free() && y.is_free() && x == y && !has_requirement(x) && !has_requirement(y);
  };
  const Dim::Expression* left = a.expression();
  const Dim::Expression* right = b.expression();
  if (left == nullptr || right == nullptr) return std::nullopt;
  if (op == Dim::Op::Add && right->op == Dim::Op::Subtract && are_same(right->b, a))
    return right->a;
  if (op == Dim::Op::Add && left->op == Dim::Op::Subtract && are_same(left->b, b)) return left->a;
  if (op != Dim::Op::Subtract || left->op != Dim::Op::Add) return std::nullopt;
  if (are_same(left->b, b)) return left->a;
  return are_same(left->a, b) ? std::optional(left->b) : std::nullopt;
}

// The only symbol of both, where there is one and it has not too many values to try.
std::optional<FreeSymbol> only_symbol(const Dim& a, const Dim& b) {
  constexpr int64_t kMostValues = 1024;
  std::optional<FreeSymbol> only;
  bool is_one = true;
  const auto visit = [&](const FreeSymbol& symbol) {
    is_one = is_one && (!only || only->index == symbol.index);
    only = symbol;
  };
  for_each_symbol(a, visit);
  for_each_symbol(b, visit);
  const bool is_tried =
      is_one && only && (only->maximum - only->minimum) / only->multiple_of < kMostValues;
  return is_tried ? only : std::nullopt;
}

// Of an expression of one symbol.
int64_t value_at(const Dim& dim, int64_t symbol) {
  const Dim::Expression* expression = dim.expression();
  if (expression == nullptr) return dim.bound();
  if (expression->op == Dim::Op::Symbol) return symbol;
  return apply(expression->op, value_at(expression->a, symbol), value_at(expression->b, symbol));
}

// Equal at every value of one symbol: floor(x / 2) and floor(x / 4) + floor((x + 2) / 4).
bool is_same_at_all_values(const Dim& a, const Dim& b) {
  const std::optional<FreeSymbol> symbol = only_symbol(a, b);
  if (!symbol) return false;
  for (int64_t at = symbol->minimum; at <= symbol->maximum; at += symbol->multiple_of) {
    if (value_at(a, at) != value_at(b, at)) return false;
  }
  return true;
}

// Of a - b, exactly where they are of one symbol.
DimRange range_of_difference(const Dim& a, const Dim& b) {
  const std::optional<FreeSymbol> symbol =
      a.is_free() && b.is_free() ? only_symbol(a, b) : std::nullopt;
  if (!symbol) return range_of(Dim::Op::Subtract, a.range(), b.range());
  DimRange range{.least = kMost, .most = kLeast};
  for (int64_t at = symbol->minimum; at <= symbol->maximum; at += symbol->multiple_of) {
    const int64_t value = apply(Dim::Op::Subtract, value_at(a, at), value_at(b, at));
    range = {.least = std::min(range.least, value), .most = std::max(range.most, value)};
  }
  return range;
}

// Whether a - b is one number, whatever the symbols are: what both have alike does not decide.
bool differ_by_a_number(const Dim& a, const Dim& b) {
  Sum difference = sum_of(a);
  for (const auto& [factors, count] : sum_of(b)) {
    Fraction& rest = difference[factors];
    rest = rest + Fraction{.above = -1} * count;
  }
  difference = without_zeros(std::move(difference));
  return difference.empty() || (difference.size() == 1 && difference.begin()->first.empty());
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
  if (!expression_ || is_number(expression_->range)) return std::abs(bound_);
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
  // What is equal to a number, or to the other side, may still refuse a run.
  const bool are_same = is_same(a, b) && !has_requirement(a) && !has_requirement(b);
  if (op == Op::Multiply && (is_number(a, 0) || is_number(b, 0))) return 0;
  if ((op == Op::Multiply || op == Op::Divide) && is_number(b, 1)) return a;
  if (op == Op::Multiply && is_number(a, 1)) return b;
  if ((op == Op::Add || op == Op::Subtract) && is_number(b, 0)) return a;
  if (op == Op::Add && is_number(a, 0)) return b;
  if (op == Op::Subtract && are_same) return 0;
  // No negative numbers: a plan's sizes have none.
  const auto is_negative = [](const Dim& dim) { return !dim.is_free() && dim.bound_ < 0; };
  if (op == Op::Add && is_negative(b)) return combine(Op::Subtract, a, -b.bound_);
  if (op == Op::Add && is_negative(a)) return combine(Op::Subtract, b, -a.bound_);
  if (op == Op::Subtract && is_negative(b)) return combine(Op::Add, a, -b.bound_);
  // Of 0 - y: y.
  const auto negated = [](const Dim& dim) -> const Dim* {
    const Expression* expression = dim.expression();
    const bool is_negation =
        expression != nullptr && expression->op == Op::Subtract && expression->a == 0;
    return is_negation ? &expression->b : nullptr;
  };
  if (op == Op::Add && negated(b) != nullptr) return combine(Op::Subtract, a, *negated(b));
  if (op == Op::Add && negated(a) != nullptr) return combine(Op::Subtract, b, *negated(a));
  if (op == Op::Subtract && negated(b) != nullptr) return combine(Op::Add, a, *negated(b));
  // 0 - (x - y)
  if (const Expression* taken = b.expression();
      op == Op::Subtract && is_number(a, 0) && taken != nullptr && taken->op == Op::Subtract)
    return combine(Op::Subtract, taken->b, taken->a);
  if (std::optional<Dim> left = what_is_left(op, a, b)) return std::move(*left);
  if (op == Op::Multiply && is_negative(b)) return combine(Op::Subtract, 0, a * -b.bound_);
  if (op == Op::Multiply && is_negative(a)) return combine(Op::Subtract, 0, b * -a.bound_);
  if (op == Op::Multiply && negated(a) != nullptr) return combine(Op::Subtract, 0, *negated(a) * b);
  if (op == Op::Multiply && negated(b) != nullptr) return combine(Op::Subtract, 0, a * *negated(b));
  // Rounded down: of 0 - y the quotient of y, rounded up.
  if (op == Op::Divide && !b.is_free() && b.bound_ > 0 && negated(a) != nullptr)
    return combine(Op::Subtract, 0, (*negated(a) + (b.bound_ - 1)) / b);
  if (divides && are_same) return op == Op::Divide ? 1 : 0;
  if ((op == Op::Min || op == Op::Max) && are_same) return a;
  RLX_CHECK(!divides || b.range().least > 0, "division of " + to_string(a) + " by " + to_string(b));
  if (op == Op::Modulo && !b.is_free() && a.divides_by(b.bound())) return 0;
  if (divides) {
    if (std::optional<Dim> quotient = quotient_by_factor(a, b))
      return op == Op::Divide ? std::move(*quotient) : Dim(0);
  }
  if (op == Op::Divide && a.expression_ && a.expression_->op == Op::Multiply && !b.is_free()) {
    const Dim& left = a.expression_->a;
    const Dim& right = a.expression_->b;
    if (right.divides_by(b.bound())) return left * (right / b);
    if (left.divides_by(b.bound())) return left / b * right;
  }
  const bool turns = !a.is_free() && (op == Op::Add || op == Op::Multiply);
  const Dim& size = turns ? b : a;
  const Dim& number = turns ? a : b;
  if (!number.is_free()) {
    if (const std::optional<Dim> shorter = in_fewer_steps(op, size, number.bound_)) return *shorter;
  }
  const DimRange range =
      op == Op::Subtract ? range_of_difference(a, b) : range_of(op, a.range(), b.range());
  const bool must_stay =
      is_requirement(op, a, b) || (is_number(range) && (has_requirement(a) || has_requirement(b)));
  if (is_number(range) && !must_stay) return range.least;
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
  return without_zeros(sum_of(a)) == without_zeros(sum_of(b)) || is_same_at_all_values(a, b);
}

void Dim::tell_fixed(const Dim& dim) {
  if (is_number(dim.range())) return;
  RLX_CHECK(innermost_watch != nullptr, "a number for the free size " + to_string(dim));
  innermost_watch->hears_(dim);
}

bool has_requirement(const Dim& size) {
  const Dim::Expression* expression = size.expression();
  if (expression == nullptr || expression->op == Dim::Op::Symbol) return false;
  return is_requirement(expression->op, expression->a, expression->b) ||
         has_requirement(expression->a) || has_requirement(expression->b);
}

Dim required_at_least(const Dim& size, const Dim& needs, const Dim& least) {
  const Dim above = needs - least;
  if (above.range().least >= 0) return size;
  // What is 0 at most would count as 0 and be lost: an odd number of the same sign.
  const Dim decides = above.range().most > 0 ? above : above * 2 + 1;
  return size + min(max(decides, 0), 0);
}

Dim min(const Dim& a, const Dim& b) {
  if (is_requirement(Dim::Op::Min, a, b)) return Dim::combine(Dim::Op::Min, a, b);
  if (a.range().most <= b.range().least && !has_requirement(b)) return a;
  if (b.range().most <= a.range().least && !has_requirement(a)) return b;
  if (differ_by_a_number(a, b) && !has_requirement(a) && !has_requirement(b))
    return a.bound() <= b.bound() ? a : b;
  return Dim::combine(Dim::Op::Min, a, b);
}

Dim max(const Dim& a, const Dim& b) {
  if (a.range().least >= b.range().most && !has_requirement(b)) return a;
  if (b.range().least >= a.range().most && !has_requirement(a)) return b;
  if (differ_by_a_number(a, b) && !has_requirement(a) && !has_requirement(b))
    return a.bound() >= b.bound() ? a : b;
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

Dim with_symbols(const Dim& size, const std::function<Dim(const FreeSymbol&)>& other) {
  const Dim::Expression* expression = size.expression();
  if (expression == nullptr) return size;
  if (expression->op == Dim::Op::Symbol) return other(expression->symbol);
  const Dim a = with_symbols(expression->a, other);
  const Dim b = with_symbols(expression->b, other);
  switch (expression->op) {
    case Dim::Op::Add:
      return a + b;
    case Dim::Op::Subtract:
      return a - b;
    case Dim::Op::Multiply:
      return a * b;
    case Dim::Op::Divide:
      return a / b;
    case Dim::Op::Modulo:
      return a % b;
    case Dim::Op::Min:
      return min(a, b);
    case Dim::Op::Max:
      return max(a, b);
    case Dim::Op::Symbol:
      break;
  }
  RLX_CHECK(false, "an operator of sizes");
}

void for_each_symbol(const Dim& size, const std::function<void(const FreeSymbol&)>& visit) {
  const Dim::Expression* expression = size.expression();
  if (expression == nullptr) return;
  if (expression->op == Dim::Op::Symbol) return visit(expression->symbol);
  for_each_symbol(expression->a, visit);
  for_each_symbol(expression->b, visit);
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

DimOrder::DimOrder(const Dim& a, const Dim& b)
    : bound_(a.bound() <=> b.bound()),
      least_(a.range().least <=> b.range().most),
      most_(a.range().most <=> b.range().least),
      // A requirement is free, and yet one number.
      free_(a.is_free() && !is_number(a.range()) ? &a : &b) {
  if (orders_are_decided && differ_by_a_number(a, b)) least_ = most_ = bound_;
}

void DimOrder::tell_undecided() const {
  if (orders_are_decided && free_ != nullptr) Dim::tell_fixed(*free_);
}

DecidedOrders::DecidedOrders() : outer_(orders_are_decided) {
  orders_are_decided = true;
}

DecidedOrders::~DecidedOrders() {
  orders_are_decided = outer_;
}

DimWatch::DimWatch(std::function<void(const Dim&)> hears)
    : hears_(std::move(hears)), outer_(innermost_watch) {
  innermost_watch = this;
}

DimWatch::~DimWatch() {
  innermost_watch = outer_;
}

}  // namespace rlx
