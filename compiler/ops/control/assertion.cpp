// SPDX-License-Identifier: Apache-2.0
// assert: what must hold in a run (ops.md 15). Importers and passes put it where a loop may reach
// its bound or a branch cannot be; whoever checks indices is told by its message.
#include "compiler/ops/lowering/lower_context.h"
#include "schema/plan_header.h"

namespace rlx {
namespace {

bool infer_assert(InferContext& ctx) {
  const DType dtype = ctx.dtype(0);
  if ((dtype != DType::bool_ && dtype != DType::i32) || element_count(ctx.shape(0)) != 1)
    return ctx.fail(DiagCode::BadDtype,
                    "the condition is " + to_string(ctx.input(0)) + ", wanted one bool or i32");
  const std::string& message = ctx.attrs().text("message");
  if (message.empty() || message.size() > kMaxAssertionBytes)
    return ctx.fail(DiagCode::BadAttribute, "message has " + std::to_string(message.size()) +
                                                " bytes, wanted 1 to " +
                                                std::to_string(kMaxAssertionBytes));
  ctx.set_output(0, {DType::bool_, {}});
  return true;
}

bool evaluate_assert(EvaluateContext& ctx) {
  const bool holds = (ctx.input(0).integers.front() != 0) == ctx.attrs().flag("wanted");
  if (!holds) return ctx.fail(DiagCode::Limit, ctx.attrs().text("message"));
  ctx.output(0).integers = {1};
  return true;
}

bool lower_assert(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const std::string message = ctx.attrs().text("message");
  ctx.dispatch<KernelId::assertion>()
      .workgroup({1})
      .define("RLX_T", std::string(name_of(x.dtype())))
      .define("RLX_WANTED", ctx.attrs().flag("wanted") ? 1 : 0)
      .read(&AssertionParams::x, x)
      .write(&AssertionParams::y, ctx.output(0))
      .count_failures(message)
      .grid(1)
      .work(byte_size(x.type) + 1, 0)
      .reason("told where it does not hold: " + message);
  return true;
}

constexpr AttrSpec kAssertAttrs[] = {
    {.name = "message", .type = AttrType::String, .required = true},
    {.name = "wanted", .type = AttrType::Bool, .default_text = "true"},
};

constexpr OpDef kAsserts[] = {
    {.name = "assert",
     .signature = "assert(x; message, wanted=true) -> holds",
     .attrs = kAssertAttrs,
     .infer = infer_assert,
     .evaluate = evaluate_assert,
     .lower = lower_assert,
     .has_effect = true},
};

}  // namespace

std::span<const OpDef> assertion_ops() {
  return kAsserts;
}

}  // namespace rlx
