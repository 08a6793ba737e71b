// SPDX-License-Identifier: Apache-2.0
// Expressions found from samples.
#include "compiler/import/onnx/fit_dims.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <numeric>
#include <utility>

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
      if (const auto text = polynomial(names_, bindings_, monomials(names_.size()), divisor))
        return text;
    }
    for (size_t i = 0; i < used_.size(); ++i) {
      if (const auto text = stair(i)) return text;
    }
    return polynomial_with_steps();
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

  // values * divisor as a polynomial of these, with integer coefficients.
  std::optional<std::string> polynomial(const std::vector<std::string>& names,
                                        const std::vector<Binding>& bindings,
                                        const std::vector<Exponents>& terms,
                                        int64_t divisor) const {
    std::vector<std::vector<int64_t>> rows;
    for (size_t i = 0; i < bindings.size(); ++i) {
      std::vector<int64_t> row;
      for (const Exponents& term : terms) row.push_back(modulo(value_of(term, bindings[i])));
      row.push_back(modulo(Wide{values_[i]} * divisor));
      rows.push_back(std::move(row));
    }
    std::optional<std::vector<int64_t>> solved = solve(std::move(rows), terms.size());
    if (!solved) return std::nullopt;
    for (int64_t& coefficient : *solved) {
      if (coefficient > kPrime / 2) coefficient -= kPrime;
      if (std::abs(coefficient) > kMostCoefficient) return std::nullopt;
    }
    for (size_t i = 0; i < bindings.size(); ++i) {
      Wide sum = 0;
      for (size_t j = 0; j < terms.size(); ++j)
        sum += Wide{(*solved)[j]} * value_of(terms[j], bindings[i]);
      if (sum != Wide{values_[i]} * divisor) return std::nullopt;
    }
    const std::string text = text_of(names, terms, *solved);
    if (divisor == 1) return text;
    return "(" + text + ") / " + std::to_string(divisor);
  }

  static std::string text_of(const std::vector<std::string>& names,
                             const std::vector<Exponents>& terms,
                             const std::vector<int64_t>& coefficients) {
    std::string text;
    for (size_t j = 0; j < terms.size(); ++j) {
      if (coefficients[j] == 0) continue;
      const bool is_negative = coefficients[j] < 0;
      std::string term;
      for (size_t i = 0; i < names.size(); ++i) {
        for (int power = 0; power < terms[j][i]; ++power)
          term += (term.empty() ? "" : " * ") + names[i];
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

  // What a symbol alone does to the values: where the other symbols have their first ones, with the
  // symbol in steps of `unit`. Ascending.
  struct Line {
    int64_t unit = 1;
    std::map<int64_t, int64_t> values;  // by symbol / unit
  };
  [[nodiscard]] Line line_along(size_t symbol) const {
    std::map<int64_t, int64_t> values;
    for (size_t i = 0; i < bindings_.size(); ++i) {
      Binding moved = bindings_[i];
      moved[symbol] = bindings_.front()[symbol];
      if (moved == bindings_.front()) values.emplace(bindings_[i][symbol], values_[i]);
    }
    Line line{.unit = 0, .values = {}};
    for (const auto& [at, value] : values) line.unit = std::gcd(line.unit, at);
    for (const auto& [at, value] : values) line.values.emplace(at / line.unit, value);
    return line;
  }

  // The residues at which values grow by another amount than elsewhere, if the growth from u to
  // u + 1 follows from u modulo `period`, which some residue must show twice.
  static std::optional<std::vector<int64_t>> jumps(const Line& line, int64_t period) {
    std::map<int64_t, int64_t> growth;  // by residue
    bool is_shown = false;
    for (const auto& [at, value] : line.values) {
      const auto next = line.values.find(at + 1);
      if (next == line.values.end()) continue;
      const auto [known, is_new] = growth.emplace(at % period, next->second - value);
      if (!is_new && known->second != next->second - value) return std::nullopt;
      is_shown = is_shown || !is_new;
    }
    if (!is_shown) return std::nullopt;
    std::map<int64_t, int64_t> counts;
    for (const auto& [residue, amount] : growth) ++counts[amount];
    const auto usual = std::ranges::max_element(
        counts, {}, [](const std::pair<const int64_t, int64_t>& count) { return count.second; });
    std::vector<int64_t> residues;
    for (const auto& [residue, amount] : growth) {
      if (amount != usual->first) residues.push_back(residue);
    }
    return residues;
  }

  // floor((u + a) / b), u a symbol in its steps.
  struct Step {
    size_t symbol = 0;
    int64_t unit = 1;
    int64_t a = 0;
    int64_t b = 1;
    [[nodiscard]] std::string text(const std::string& name) const {
      std::string above = unit == 1 ? name : name + " / " + std::to_string(unit);
      if (a != 0) above = "(" + above + " + " + std::to_string(a) + ")";
      return "(" + above + " / " + std::to_string(b) + ")";
    }
  };

  // The steps of one symbol; none where its values have no period.
  [[nodiscard]] std::vector<Step> steps_of(size_t symbol) const {
    constexpr int64_t kLongestPeriod = 64;
    constexpr size_t kMostSteps = 4;
    const Line line = line_along(symbol);
    for (int64_t period = 2; period <= kLongestPeriod; ++period) {
      const auto residues = jumps(line, period);
      if (!residues || residues->empty() || residues->size() > kMostSteps) continue;
      std::vector<Step> steps;
      for (const int64_t residue : *residues) {
        steps.push_back({.symbol = symbol,
                         .unit = line.unit,
                         .a = (2 * period - residue - 1) % period,
                         .b = period});
      }
      if (explains(line, steps)) return steps;
    }
    return {};
  }

  // Whether a sum of the symbol, its steps and a number is the whole line.
  [[nodiscard]] bool explains(const Line& line, const std::vector<Step>& steps) const {
    std::vector<std::vector<int64_t>> rows;
    for (const auto& [at, value] : line.values) {
      std::vector<int64_t> row{modulo(at), 1};
      for (const Step& step : steps) row.push_back((at + step.a) / step.b);
      row.push_back(modulo(value));
      rows.push_back(std::move(row));
    }
    return rows.size() > steps.size() + 2 && solve(std::move(rows), steps.size() + 2).has_value();
  }

  // A polynomial of symbols and of their steps.
  [[nodiscard]] std::optional<std::string> polynomial_with_steps() const {
    constexpr size_t kMostVariables = 7;
    std::vector<std::string> names = names_;
    std::vector<Binding> bindings = bindings_;
    for (size_t symbol = 0; symbol < names_.size(); ++symbol) {
      for (const Step& step : steps_of(symbol)) {
        names.push_back(step.text(names_[symbol]));
        for (Binding& binding : bindings)
          binding.push_back((binding[symbol] / step.unit + step.a) / step.b);
      }
    }
    if (names.size() == names_.size() || names.size() > kMostVariables) return std::nullopt;
    // Steps of one symbol are no independent numbers: of what is right, the terms of the lowest
    // degree.
    std::vector<Exponents> terms = monomials(names.size());
    std::ranges::stable_sort(terms, {}, [](const Exponents& term) {
      return std::accumulate(term.begin(), term.end(), 0);
    });
    for (const int64_t divisor : kDivisors) {
      if (const auto text = polynomial(names, bindings, terms, divisor)) return text;
    }
    return std::nullopt;
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
