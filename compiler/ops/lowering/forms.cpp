// SPDX-License-Identifier: Apache-2.0
// The text of a problem, and the choice.
#include "compiler/ops/lowering/forms.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

#include "compiler/support/check.h"

namespace rlx {
namespace {

// Times within this factor of the best one's may be wrong about which is less.
constexpr double kCloseFactor = 1.3;
constexpr size_t kMostClose = 5;

std::string attributes_text(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes) text += " " + name + "=" + to_string(value);
  return text;
}

// FNV-1a: stays the same from run to run, which a table in a file needs.
std::string digest_of(std::string_view text) {
  uint64_t digest = 0xcbf29ce484222325;
  for (const char c : text) digest = (digest ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  std::array<char, 17> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(digest));
  return hex.data();
}

// What the node computes, without names: its op and types to read, the rest as a digest.
std::string problem_text(const LowerContext& ctx) {
  const Node& node = ctx.node();
  std::string text = node.op;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    text += (i > 0 ? ", " : " ") + (ctx.has_input(i) ? to_string(ctx.input_type(i)) : "none");
  text += " ->";
  for (size_t i = 0; i < node.outputs.size(); ++i)
    text += (i > 0 ? ", " : " ") + to_string(ctx.output_type(i));
  std::string rest = attributes_text(node.attributes);
  for (const RegionStep& step : node.region) {
    rest += "\n" + step.op + attributes_text(step.attributes);
    for (const uint32_t operand : step.operands) rest += " " + std::to_string(operand);
    rest += " : " + std::string(name_of(step.dtype));
  }
  return rest.empty() ? text : text + " #" + digest_of(rest);
}

// The best one, then the others that are close to it, the closest first, each name once.
std::vector<TimedForm> close_forms(const std::vector<TimedForm>& forms, size_t best) {
  std::vector<TimedForm> close = {forms[best]};
  std::vector<TimedForm> others;
  for (const TimedForm& form : forms) {
    if (form.microseconds <= kCloseFactor * forms[best].microseconds) others.push_back(form);
  }
  std::ranges::stable_sort(others, {}, &TimedForm::microseconds);
  for (TimedForm& form : others) {
    const bool is_known = std::ranges::find(close, form.name, &TimedForm::name) != close.end();
    if (!is_known && close.size() < kMostClose) close.push_back(std::move(form));
  }
  return close;
}

}  // namespace

size_t take_form(LowerContext& ctx, std::string_view chooser, const std::vector<TimedForm>& forms,
                 size_t best) {
  RLX_CHECK(best < forms.size(), "the best of the forms");
  // What makes weights runs once, and nobody times it.
  if (ctx.runs_once() || forms.size() < 2) return best;
  FormChoice choice{.entry = ctx.program().entry,
                    .node = ctx.node().name,
                    .problem = problem_text(ctx),
                    .chooser = std::string(chooser),
                    .close = close_forms(forms, best)};
  size_t taken = best;
  if (const std::string* tuned = ctx.tuned_form(choice.key())) {
    const auto named = std::ranges::find(forms, *tuned, &TimedForm::name);
    choice.is_tuned = named != forms.end();
    if (choice.is_tuned) taken = static_cast<size_t>(named - forms.begin());
  }
  if (choice.close.size() < 2 && !choice.is_tuned) return best;
  choice.taken = forms[taken].name;
  ctx.program().form_choices.push_back(std::move(choice));
  return taken;
}

}  // namespace rlx
