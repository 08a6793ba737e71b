// SPDX-License-Identifier: Apache-2.0
// A size of a tensor, or a number made of sizes: fixed, or an expression over symbols whose values
// a run gives. Every Dim knows its value at the bound, where each symbol has its largest value.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rlx {

// A symbol that a run gives a value: minimum, minimum + multiple_of, ... up to maximum.
struct FreeSymbol {
  uint32_t index = 0;  // of the module's symbols
  std::string name;
  int64_t minimum = 0;
  int64_t maximum = 0;
  int64_t multiple_of = 1;
};

// Of the numbers that an expression may be.
struct DimRange {
  int64_t least = 0;
  int64_t most = 0;
};

class Dim;

// The order of two sizes. Where it depends on the run, that at the bound: what kernels are chosen
// by. Under a DecidedOrders such an order is a number that was read.
class DimOrder {
 public:
  constexpr explicit DimOrder(std::strong_ordering order)
      : bound_(order), least_(order), most_(order) {}
  // One of the two is free.
  DimOrder(const Dim& a, const Dim& b);

  friend bool operator<(const DimOrder& order, int) {
    return order.decided(order.bound_ < 0, order.most_ < 0, order.least_ >= 0);
  }
  friend bool operator<=(const DimOrder& order, int) {
    return order.decided(order.bound_ <= 0, order.most_ <= 0, order.least_ > 0);
  }
  friend bool operator>(const DimOrder& order, int) {
    return order.decided(order.bound_ > 0, order.least_ > 0, order.most_ <= 0);
  }
  friend bool operator>=(const DimOrder& order, int) {
    return order.decided(order.bound_ >= 0, order.least_ >= 0, order.most_ < 0);
  }
  friend bool operator<(int, const DimOrder& order) { return order > 0; }
  friend bool operator<=(int, const DimOrder& order) { return order >= 0; }
  friend bool operator>(int, const DimOrder& order) { return order < 0; }
  friend bool operator>=(int, const DimOrder& order) { return order <= 0; }

 private:
  [[nodiscard]] bool decided(bool at_bound, bool is_always, bool is_never) const {
    if (!is_always && !is_never) tell_undecided();
    return at_bound;
  }
  void tell_undecided() const;

  std::strong_ordering bound_;
  std::strong_ordering least_;  // where a - b is least
  std::strong_ordering most_;
  const Dim* free_ = nullptr;  // of the two; lives as long as what compares them
};

class Dim {
 public:
  enum class Op : uint8_t { Symbol, Add, Subtract, Multiply, Divide, Modulo, Min, Max };
  struct Expression;

  constexpr Dim() = default;
  template <std::integral T>
  constexpr Dim(T value)  // NOLINT: a number is a Dim
      : bound_(static_cast<int64_t>(value)) {}
  static Dim of(const FreeSymbol& symbol);

  // At the largest value of every symbol.
  [[nodiscard]] constexpr int64_t bound() const { return bound_; }
  [[nodiscard]] bool is_free() const { return expression_ != nullptr; }
  // Null for a fixed number.
  [[nodiscard]] const Expression* expression() const { return expression_.get(); }
  [[nodiscard]] DimRange range() const;
  // A number that divides all values, as far as the expression shows; 0 divides 0 alone.
  [[nodiscard]] int64_t known_factor() const;
  // Every value is a multiple of `number`, as far as the expression shows.
  [[nodiscard]] bool divides_by(int64_t number) const;

  // The number, for code that takes only fixed ones: of a free one it tells DimWatch, which refuses
  // what was computed.
  template <typename T>
  requires(std::same_as<T, int64_t> || std::same_as<T, uint64_t>) operator T()
      const {  // NOLINT: what was written for numbers reads numbers
    return static_cast<T>(number());
  }
  template <typename T>
  requires((std::integral<T> || std::floating_point<T>)&&!std::same_as<T, int64_t> &&
           !std::same_as<T, uint64_t> && !std::same_as<T, bool>) explicit
  operator T() const {
    return static_cast<T>(number());
  }

  friend Dim operator+(const Dim& a, const Dim& b) {
    if (!a.expression_ && !b.expression_) return a.bound_ + b.bound_;
    return combine(Op::Add, a, b);
  }
  friend Dim operator-(const Dim& a, const Dim& b) {
    if (!a.expression_ && !b.expression_) return a.bound_ - b.bound_;
    return combine(Op::Subtract, a, b);
  }
  friend Dim operator*(const Dim& a, const Dim& b) {
    if (!a.expression_ && !b.expression_) return a.bound_ * b.bound_;
    return combine(Op::Multiply, a, b);
  }
  // Rounds toward zero for fixed numbers, as integers do, and down for free ones, which are not
  // negative.
  friend Dim operator/(const Dim& a, const Dim& b) {
    if (!a.expression_ && !b.expression_) return a.bound_ / b.bound_;
    return combine(Op::Divide, a, b);
  }
  friend Dim operator%(const Dim& a, const Dim& b) {
    if (!a.expression_ && !b.expression_) return a.bound_ % b.bound_;
    return combine(Op::Modulo, a, b);
  }
  Dim& operator++() { return *this += 1; }
  // With plain numbers, so that neither side is converted.
  template <std::integral T>
  friend Dim operator+(const Dim& a, T b) {
    return a + Dim(b);
  }
  template <std::integral T>
  friend Dim operator+(T a, const Dim& b) {
    return Dim(a) + b;
  }
  template <std::integral T>
  friend Dim operator-(const Dim& a, T b) {
    return a - Dim(b);
  }
  template <std::integral T>
  friend Dim operator-(T a, const Dim& b) {
    return Dim(a) - b;
  }
  template <std::integral T>
  friend Dim operator*(const Dim& a, T b) {
    return a * Dim(b);
  }
  template <std::integral T>
  friend Dim operator*(T a, const Dim& b) {
    return Dim(a) * b;
  }
  template <std::integral T>
  friend Dim operator/(const Dim& a, T b) {
    return a / Dim(b);
  }
  template <std::integral T>
  friend Dim operator/(T a, const Dim& b) {
    return Dim(a) / b;
  }
  template <std::integral T>
  friend Dim operator%(const Dim& a, T b) {
    return a % Dim(b);
  }
  template <std::integral T>
  friend Dim operator%(T a, const Dim& b) {
    return Dim(a) % b;
  }
  Dim operator-() const { return Dim(0) - *this; }
  Dim& operator+=(const Dim& other) { return *this = *this + other; }
  Dim& operator-=(const Dim& other) { return *this = *this - other; }
  Dim& operator*=(const Dim& other) { return *this = *this * other; }
  Dim& operator/=(const Dim& other) { return *this = *this / other; }
  template <std::integral T>
  friend T& operator+=(T& number, const Dim& size) {
    return number += static_cast<T>(size);
  }
  template <std::integral T>
  friend T& operator-=(T& number, const Dim& size) {
    return number -= static_cast<T>(size);
  }
  template <std::integral T>
  friend T& operator*=(T& number, const Dim& size) {
    return number *= static_cast<T>(size);
  }
  template <std::integral T>
  friend T& operator/=(T& number, const Dim& size) {
    return number /= static_cast<T>(size);
  }
  friend Dim min(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);
  // The least n with n * b >= a.
  friend Dim ceil_div(const Dim& a, const Dim& b) { return (a + (b - 1)) / b; }
  friend Dim round_up(const Dim& a, const Dim& b) { return ceil_div(a, b) * b; }

  // Equal at every value of the symbols, as far as the expressions show: where equality depends on
  // the run, or cannot be shown, the two are taken for different.
  friend bool operator==(const Dim& a, const Dim& b) {
    if (!a.expression_ && !b.expression_) return a.bound_ == b.bound_;
    return is_same(a, b);
  }
  friend DimOrder operator<=>(const Dim& a, const Dim& b) {
    return a.expression_ || b.expression_ ? DimOrder(a, b) : DimOrder(a.bound_ <=> b.bound_);
  }
  template <std::integral T>
  friend bool operator==(const Dim& a, T b) {
    return a == Dim(b);
  }
  template <std::integral T>
  friend DimOrder operator<=>(const Dim& a, T b) {
    return a.expression_ ? DimOrder(a, Dim(b)) : DimOrder(a.bound_ <=> static_cast<int64_t>(b));
  }

 private:
  friend class DimOrder;
  Dim(int64_t bound, std::shared_ptr<const Expression> expression)
      : bound_(bound), expression_(std::move(expression)) {}
  [[nodiscard]] int64_t number() const {
    if (expression_) tell_fixed(*this);
    return bound_;
  }
  static Dim combine(Op op, const Dim& a, const Dim& b);
  static bool is_same(const Dim& a, const Dim& b);
  static void tell_fixed(const Dim& dim);

  int64_t bound_ = 0;
  std::shared_ptr<const Expression> expression_;
};

struct Dim::Expression {
  Op op = Op::Symbol;
  FreeSymbol symbol;  // of Op::Symbol; the others have operands
  Dim a;
  Dim b;
  DimRange range;
};

// a * b; nullopt where it is no 64-bit number at some value of the symbols.
std::optional<Dim> checked_product(const Dim& a, const Dim& b);

// The size with other symbols, or numbers, in the places of its symbols.
Dim with_symbols(const Dim& size, const std::function<Dim(const FreeSymbol&)>& other);
// Calls visit(symbol) for every symbol of the size, for each place where it stands.
void for_each_symbol(const Dim& size, const std::function<void(const FreeSymbol&)>& visit);

// Of fixed numbers only.
std::vector<int64_t> numbers_of(const std::vector<Dim>& dims);

// "seq * 12 + 1", or a number.
std::string to_string(const Dim& dim);

// While one is alive, the thread's free Dims that are read as numbers are told to it; without one
// they are an error of the compiler itself. The innermost hears.
class DimWatch {
 public:
  explicit DimWatch(std::function<void(const Dim&)> hears);
  ~DimWatch();
  DimWatch(const DimWatch&) = delete;
  DimWatch& operator=(const DimWatch&) = delete;

 private:
  friend class Dim;
  std::function<void(const Dim&)> hears_;
  DimWatch* outer_;
};

// While one is alive, orders of the thread that depend on the run are told to DimWatch: what is
// concluded from them must hold at every value of the symbols.
class DecidedOrders {
 public:
  DecidedOrders();
  ~DecidedOrders();
  DecidedOrders(const DecidedOrders&) = delete;
  DecidedOrders& operator=(const DecidedOrders&) = delete;

 private:
  bool outer_;
};

}  // namespace rlx
