// SPDX-License-Identifier: Apache-2.0
// Einsum as diagonals, sums, products and a transposition.
#include <algorithm>
#include <set>

#include "compiler/import/onnx/node_reader.h"

namespace rlx::onnx_import {

void einsum(NodeReader& n, const OnnxOp& row);

namespace {

// A letter per axis; the axes of an ellipsis are numbered from its right end as kEllipsis + i.
using Labels = std::vector<int>;
constexpr int kEllipsis = 256;

struct Operand {
  ValueId value;
  Labels labels;
};

bool contains(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

int64_t position(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) - labels.begin();
}

// The labels of one term; `ellipsis` is how many axes its "..." stands for.
Labels parse_term(NodeReader& n, std::string_view term, int64_t ellipsis) {
  Labels labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term.substr(i, 3) == "...") {
      for (int64_t k = ellipsis; k-- > 0;) labels.push_back(kEllipsis + static_cast<int>(k));
      i += 2;
      continue;
    }
    const char c = term[i];
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
      n.refuse("the equation has the character \"" + std::string(1, c) + "\"");
    labels.push_back(c);
  }
  return labels;
}

struct Equation {
  std::vector<std::string> terms;
  std::optional<std::string> result;
};

Equation parse_equation(NodeReader& n) {
  std::string text = n.text("equation", "");
  std::erase(text, ' ');
  Equation equation;
  const size_t arrow = text.find("->");
  if (arrow != std::string::npos) equation.result = text.substr(arrow + 2);
  std::string left = text.substr(0, arrow);
  for (size_t comma = left.find(','); comma != std::string::npos; comma = left.find(',')) {
    equation.terms.push_back(left.substr(0, comma));
    left = left.substr(comma + 1);
  }
  equation.terms.push_back(left);
  if (equation.terms.size() != n.input_count())
    n.refuse("the equation has " + std::to_string(equation.terms.size()) + " terms for " +
             std::to_string(n.input_count()) + " inputs");
  return equation;
}

// Without an arrow: the ellipsis, then the letters that stand once, in order of the alphabet.
Labels implied_result(const std::vector<Operand>& operands, int64_t ellipsis) {
  Labels labels;
  for (int64_t k = ellipsis; k-- > 0;) labels.push_back(kEllipsis + static_cast<int>(k));
  for (int letter = 'A'; letter <= 'z'; ++letter) {
    int64_t uses = 0;
    for (const Operand& operand : operands)
      uses += std::count(operand.labels.begin(), operand.labels.end(), letter);
    if (uses == 1) labels.push_back(letter);
  }
  return labels;
}

// A letter that an operand has twice: its diagonal.
void take_diagonals(NodeReader& n, Operand& operand) {
  for (size_t i = 0; i < operand.labels.size(); ++i) {
    const int label = operand.labels[i];
    const auto again = std::find(operand.labels.begin() + static_cast<int64_t>(i) + 1,
                                 operand.labels.end(), label);
    if (again == operand.labels.end()) continue;
    const int64_t second = again - operand.labels.begin();
    operand.value = n.emit("diagonal", {operand.value},
                           {{"axis1", static_cast<int64_t>(i)}, {"axis2", second}});
    operand.labels.erase(again);
    operand.labels.erase(operand.labels.begin() + static_cast<int64_t>(i));
    operand.labels.push_back(label);
    i = static_cast<size_t>(-1);  // from the start: places have moved
  }
}

void sum_out(NodeReader& n, Operand& operand, const std::set<int>& kept) {
  Ints axes;
  Labels rest;
  for (size_t i = 0; i < operand.labels.size(); ++i) {
    if (kept.contains(operand.labels[i])) {
      rest.push_back(operand.labels[i]);
    } else {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  if (axes.empty()) return;
  operand.value = n.emit("reduce_sum", {operand.value}, {{"axes", axes}});
  operand.labels = std::move(rest);
}

// Shared axes of equal size; one of size 1 is broadcast.
void match_sizes(NodeReader& n, Operand& a, const Operand& b) {
  Shape wanted = n.type(a.value).shape;
  for (size_t i = 0; i < a.labels.size(); ++i) {
    if (wanted[i] != 1 || !contains(b.labels, a.labels[i])) continue;
    wanted[i] = n.type(b.value).shape[static_cast<size_t>(position(b.labels, a.labels[i]))];
  }
  if (wanted == n.type(a.value).shape) return;
  a.value = n.emit("expand", {a.value}, {{"shape", Ints(wanted.begin(), wanted.end())}});
}

// Of integers, for which there is no dot_general: a sum over products of elements, which are no
// value in memory, in a type that wraps as narrower ones do.
ValueId sum_of_products(NodeReader& n, const Operand& a, const Operand& b, const Labels& result,
                        const Labels& summed) {
  const DType dtype = n.type(a.value).dtype;
  const DType computed = dtype == DType::i64 || dtype == DType::u32 ? DType::i64 : DType::i32;
  Labels all = result;
  all.insert(all.end(), summed.begin(), summed.end());
  const auto spread = [&](const Operand& operand) {
    Ints perm;
    Shape shape;
    for (const int label : all) {
      const bool has_label = contains(operand.labels, label);
      if (has_label) perm.push_back(position(operand.labels, label));
      shape.push_back(
          has_label
              ? n.type(operand.value).shape[static_cast<size_t>(position(operand.labels, label))]
              : Dim(1));
    }
    return n.reshape(n.transpose(n.cast(operand.value, computed), perm), shape);
  };
  ValueId sum = n.emit("mul", {spread(a), spread(b)});
  Ints axes;
  for (size_t i = result.size(); i < all.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (!axes.empty()) sum = n.emit("reduce_sum", {sum}, {{"axes", axes}});
  return n.cast(sum, dtype);
}

// The product of two operands; letters outside `kept` are summed.
Operand multiply(NodeReader& n, Operand a, Operand b, const std::set<int>& kept) {
  std::set<int> kept_a = kept;
  std::set<int> kept_b = kept;
  kept_a.insert(b.labels.begin(), b.labels.end());
  kept_b.insert(a.labels.begin(), a.labels.end());
  sum_out(n, a, kept_a);
  sum_out(n, b, kept_b);
  match_sizes(n, a, b);
  match_sizes(n, b, a);
  Ints batch_a;
  Ints batch_b;
  Ints contracted_a;
  Ints contracted_b;
  Labels result;
  Labels summed;
  Labels free;
  for (const int label : a.labels) {
    if (!contains(b.labels, label)) {
      free.push_back(label);
      continue;
    }
    const bool is_batch = kept.contains(label);
    (is_batch ? batch_a : contracted_a).push_back(position(a.labels, label));
    (is_batch ? batch_b : contracted_b).push_back(position(b.labels, label));
    (is_batch ? result : summed).push_back(label);
  }
  for (const int label : b.labels) {
    if (!contains(a.labels, label)) free.push_back(label);
  }
  result.insert(result.end(), free.begin(), free.end());
  if (is_integer(n.type(a.value).dtype))
    return {.value = sum_of_products(n, a, b, result, summed), .labels = std::move(result)};
  return {.value = n.emit("dot_general", {a.value, b.value},
                          {{"lhs_contracting", contracted_a},
                           {"rhs_contracting", contracted_b},
                           {"lhs_batch", batch_a},
                           {"rhs_batch", batch_b}}),
          .labels = std::move(result)};
}

std::vector<Operand> read_operands(NodeReader& n, const Equation& equation, int64_t& ellipsis) {
  std::vector<Operand> operands;
  ellipsis = 0;
  for (size_t i = 0; i < equation.terms.size(); ++i) {
    const std::string& term = equation.terms[i];
    const bool has_ellipsis = term.find("...") != std::string::npos;
    const int64_t letters = static_cast<int64_t>(term.size()) - (has_ellipsis ? 3 : 0);
    const int64_t covered = n.rank(i) - letters;
    if (covered < 0 || (covered > 0 && !has_ellipsis))
      n.refuse_shapes("term \"" + term + "\" does not fit rank " + std::to_string(n.rank(i)));
    ellipsis = std::max(ellipsis, covered);
    operands.push_back({.value = n.input(i), .labels = parse_term(n, term, covered)});
    take_diagonals(n, operands.back());
  }
  return operands;
}

}  // namespace

void einsum(NodeReader& n, const OnnxOp&) {
  const Equation equation = parse_equation(n);
  int64_t ellipsis = 0;
  std::vector<Operand> operands = read_operands(n, equation, ellipsis);
  const Labels wanted = equation.result ? parse_term(n, *equation.result, ellipsis)
                                        : implied_result(operands, ellipsis);
  Operand product = operands.front();
  for (size_t i = 1; i < operands.size(); ++i) {
    std::set<int> kept(wanted.begin(), wanted.end());
    for (size_t k = i + 1; k < operands.size(); ++k)
      kept.insert(operands[k].labels.begin(), operands[k].labels.end());
    product = multiply(n, std::move(product), operands[i], kept);
  }
  sum_out(n, product, std::set<int>(wanted.begin(), wanted.end()));
  Ints perm;
  for (const int label : wanted) {
    if (!contains(product.labels, label)) n.refuse("the result has a letter that no term has");
    perm.push_back(position(product.labels, label));
  }
  if (perm.size() != product.labels.size()) n.refuse("the result has a letter twice");
  const bool is_copy = product.value == n.input(0);
  const ValueId y = n.transpose(product.value, perm);
  n.set_output(0, is_copy && y == n.input(0) ? n.emit("identity", {y}) : y);
}

}  // namespace rlx::onnx_import
