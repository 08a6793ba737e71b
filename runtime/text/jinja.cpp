// SPDX-License-Identifier: Apache-2.0
// Chat templates.
#include "runtime/text/jinja.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/text/jinja_render.h"

namespace rlx::jinja {
namespace {

std::string at_place(std::string_view source, const Problem& problem) {
  return text_of(place_text(source, problem.at), ": ", problem.message);
}

std::string name_text(std::string_view name) {
  return name.empty() ? "the chat template" : text_of("the chat template ", quoted(name));
}

Status render_tree(std::string_view name, const Tree& tree,
                   const std::vector<NamedValue>& variables, const RenderOptions& options,
                   MarkedText& out) {
  Environment environment(options.limits);
  environment.now_unix_seconds = options.now_unix_seconds;
  Renderer renderer(tree, environment);
  try {
    out = renderer.run(variables);
    return {};
  } catch (Fault& fault) {
    const Problem problem{.at = renderer.place(), .message = std::move(fault.message)};
    return {RLX_INVALID_ARGUMENT, text_of(name_text(name), ", ", at_place(tree.source, problem))};
  }
}

}  // namespace

Status render(std::string_view name, std::string_view source,
              const std::vector<NamedValue>& variables, const RenderOptions& options,
              MarkedText& out) {
  const std::string text = normalised_source(source);
  const auto parsed = parse(text);
  if (const auto* problem = std::get_if<Problem>(&parsed)) {
    return {RLX_INVALID_PLAN, text_of(name_text(name), ", ", at_place(text, *problem))};
  }
  return render_tree(name, std::get<Tree>(parsed), variables, options, out);
}

std::vector<std::string> check_template(std::string_view source) {
  const std::string text = normalised_source(source);
  const auto parsed = parse(text);
  if (const auto* problem = std::get_if<Problem>(&parsed)) return {at_place(text, *problem)};
  std::vector<Problem> problems = std::get<Tree>(parsed).unsupported;
  std::stable_sort(problems.begin(), problems.end(),
                   [](const Problem& a, const Problem& b) { return a.at < b.at; });
  std::vector<std::string> out;
  for (const Problem& problem : problems) out.push_back(at_place(text, problem));
  return out;
}

}  // namespace rlx::jinja
