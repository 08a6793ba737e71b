// SPDX-License-Identifier: Apache-2.0
// Expressions found from samples.
#include "compiler/import/onnx/fit_dims.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

namespace rlx::onnx_import {
namespace {

__extension__ typedef __int128 Wide;  // products of symbols and coefficients

// Coefficients are solved for modulo a prime, where no number grows; small ones are what they are
// in integers, which checking every sample proves.
constexpr int64_t kPrime = (int64_t{1} << 61) - 1;
constexpr int64_t kMostCoefficient = int64_t{1} << 40;
constexpr size_t kMostSymbols = 4;  // that one integer may depend on
constexpr int kMostDegree = 3;
constexpr std::array<int64_t, 12> kDivisors = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32, 64};

int64_t modulo(Wide value) {
  return static_cast<int64_t>((value % kPrime + kPrime) % kPrime);
}
int64_t times(int64_t a, int64_t b) {
  return modulo(Wide{a} * b);
}
int64_t inverse(int64_t value) {
  int64_t result = 1;
  for (int64_t power = kPrime - 2; power > 0; power /= 2) {
    if (power % 2 == 1) result = times(result, value);
    value = times(value, value);
  }
  return result;
}

using Exponents = std::vector<int>;

// All products of powers up to 2 of `count` symbols, of degree 3 at most, constants last.
std::vector<Exponents> monomials(size_t count) {
  std::vector<Exponents> all;
  Exponents next(count, 2);
  for (;;) {
    if (std::accumulate(next.begin(), next.end(), 0) <= kMostDegree) all.push_back(next);
    size_t at = count;
    while (at > 0 && next[at - 1] == 0) --at;
    if (at == 0) return all;
    --next[at - 1];
    std::fill(next.begin() + static_cast<std::ptrdiff_t>(at), next.end(), 2);
  }
}

Wide value_of(const Exponents& exponents, const Binding& binding) {
  Wide product = 1;
  for (size_t i = 0; i < exponents.size(); ++i) {
    for (int power = 0; power < exponents[i]; ++power) product *= binding[i];
  }
  return product;
}

// Solves rows * x = right modulo the prime; unknowns that nothing fixes are 0. nullopt where there
// is no solution.
std::optional<std::vector<int64_t>> solve(std::vector<std::vector<int64_t>> rows, size_t unknowns) {
  std::vector<size_t> pivots;  // column of each row in use
  for (size_t column = 0; column < unknowns && pivots.size() < rows.size(); ++column) {
    const size_t top = pivots.size();
    size_t found = top;
    while (found < rows.size() && rows[found][column] == 0) ++found;
    if (found == rows.size()) continue;
    std::swap(rows[top], rows[found]);
    const int64_t scale = inverse(rows[top][column]);
    for (int64_t& entry : rows[top]) entry = times(entry, scale);
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t factor = rows[i][column];
      if (i == top || factor == 0) continue;
      for (size_t j = column; j <= unknowns; ++j)
        rows[i][j] = modulo(Wide{rows[i][j]} - Wide{factor} * rows[top][j]);
    }
    pivots.push_back(column);
  }
  for (size_t i = pivots.size(); i < rows.size(); ++i) {
    if (rows[i][unknowns] != 0) return std::nullopt;
  }
  std::vector<int64_t> solution(unknowns, 0);
  for (size_t i = 0; i < pivots.size(); ++i) solution[pivots[i]] = rows[i][unknowns];
  return solution;
}

class Fit {
 public:
  Fit(std::span<const std::string> symbols, std::span<const Binding> bindings,
      std::span<const int64_t> values)
      : values_(values) {
    for (size_t i = 0; i < symbols.size(); ++i) {
      if (depends_on(bindings, i)) used_.push_back(i);
    }
    for (const size_t i : used_) names_.push_back(symbols[i]);
    for (const Binding& binding : bindings) {
      Binding used;
      for (const size_t i : used_) used.push_back(binding[i]);
      bindings_.push_back(std::move(used));
    }
  }

  std::optional<std::string> find() {
    if (used_.empty() || used_.size() > kMostSymbols) return std::nullopt;
    for (const int64_t divisor : kDivisors) {
      if (const auto text = polynomial(divisor)) return text;
    }
    for (size_t i = 0; i < used_.size(); ++i) {
      if (const auto text = stair(i)) return text;
    }
    return std::nullopt;
  }

 private:
  // True where two bindings that differ in this symbol alone have different values.
  bool depends_on(std::span<const Binding> bindings, size_t symbol) const {
    for (size_t i = 0; i < bindings.size(); ++i) {
      for (size_t j = i + 1; j < bindings.size(); ++j) {
        if (values_[i] == values_[j] || bindings[i][symbol] == bindings[j][symbol]) continue;
        Binding moved = bindings[j];
        moved[symbol] = bindings[i][symbol];
        if (moved == bindings[i]) return true;
      }
    }
    return false;
  }

  // values * divisor as a polynomial with integer coefficients.
  std::optional<std::string> polynomial(int64_t divisor) const {
    const std::vector<Exponents> terms = monomials(names_.size());
    std::vector<std::vector<int64_t>> rows;
    for (size_t i = 0; i < bindings_.size(); ++i) {
      std::vector<int64_t> row;
      for (const Exponents& term : terms) row.push_back(modulo(value_of(term, bindings_[i])));
      row.push_back(modulo(Wide{values_[i]} * divisor));
      rows.push_back(std::move(row));
    }
    std::optional<std::vector<int64_t>> solved = solve(std::move(rows), terms.size());
    if (!solved) return std::nullopt;
    for (int64_t& coefficient : *solved) {
      if (coefficient > kPrime / 2) coefficient -= kPrime;
      if (std::abs(coefficient) > kMostCoefficient) return std::nullopt;
    }
    for (size_t i = 0; i < bindings_.size(); ++i) {
      Wide sum = 0;
      for (size_t j = 0; j < terms.size(); ++j)
        sum += Wide{(*solved)[j]} * value_of(terms[j], bindings_[i]);
      if (sum != Wide{values_[i]} * divisor) return std::nullopt;
    }
    const std::string text = text_of(terms, *solved);
    if (divisor == 1) return text;
    return "(" + text + ") / " + std::to_string(divisor);
  }

  std::string text_of(const std::vector<Exponents>& terms,
                      const std::vector<int64_t>& coefficients) const {
    std::string text;
    for (size_t j = 0; j < terms.size(); ++j) {
      if (coefficients[j] == 0) continue;
      const bool is_negative = coefficients[j] < 0;
      std::string term;
      for (size_t i = 0; i < names_.size(); ++i) {
        for (int power = 0; power < terms[j][i]; ++power)
          term += (term.empty() ? "" : " * ") + names_[i];
      }
      const std::string size = std::to_string(std::abs(coefficients[j]));
      if (term.empty()) {
        term = size;
      } else if (size != "1") {
        term += " * " + size;
      }
      if (text.empty()) {
        text = is_negative ? "0 - " + term : term;
      } else {
        text += (is_negative ? " - " : " + ") + term;
      }
    }
    return text.empty() ? "0" : text;
  }

  // constant * (the other symbols) * floor((m s + a) / b) with s the symbol at `stepped`.
  std::optional<std::string> stair(size_t stepped) const {
    std::vector<int64_t> heights;
    for (size_t i = 0; i < bindings_.size(); ++i) {
      int64_t others = 1;
      for (size_t j = 0; j < names_.size(); ++j) {
        if (j != stepped && __builtin_mul_overflow(others, bindings_[i][j], &others))
          return std::nullopt;
      }
      if (others == 0 || values_[i] % others != 0) return std::nullopt;
      heights.push_back(values_[i] / others);
    }
    int64_t constant = 0;
    for (const int64_t height : heights) constant = std::gcd(constant, height);
    if (constant == 0) return std::nullopt;
    for (int64_t& height : heights) height /= constant;
    for (int64_t b = 2; b <= 64; ++b) {
      for (int64_t m = 1; m < 8 && m < b; ++m) {
        const std::optional<int64_t> a = offset(stepped, heights, m, b);
        if (!a) continue;
        std::string text = "(" + names_[stepped] + (m == 1 ? "" : " * " + std::to_string(m));
        if (*a != 0) text += (*a < 0 ? " - " : " + ") + std::to_string(std::abs(*a));
        text += ") / " + std::to_string(b);
        if (constant != 1) text += " * " + std::to_string(constant);
        for (size_t j = 0; j < names_.size(); ++j) {
          if (j != stepped) text += " * " + names_[j];
        }
        return text;
      }
    }
    return std::nullopt;
  }

  // The one a with floor((m s + a) / b) = height everywhere; nullopt where none or several do.
  std::optional<int64_t> offset(size_t stepped, const std::vector<int64_t>& heights, int64_t m,
                                int64_t b) const {
    Wide least = -kPrime;
    Wide most = kPrime;
    for (size_t i = 0; i < heights.size(); ++i) {
      const Wide start = Wide{b} * heights[i] - Wide{m} * bindings_[i][stepped];
      least = std::max(least, start);
      most = std::min(most, start + b - 1);
      if (least > most) return std::nullopt;
    }
    if (least != most) return std::nullopt;
    return static_cast<int64_t>(least);
  }

  std::span<const int64_t> values_;
  std::vector<size_t> used_;  // symbols that the values depend on
  std::vector<std::string> names_;
  std::vector<Binding> bindings_;  // of those symbols alone
};

}  // namespace

std::optional<std::string> fit_dim(std::span<const std::string> symbols,
                                   std::span<const Binding> bindings,
                                   std::span<const int64_t> values) {
  return Fit(symbols, bindings, values).find();
}

}  // namespace rlx::onnx_import
