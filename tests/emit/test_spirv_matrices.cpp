// SPDX-License-Identifier: Apache-2.0
// Cooperative matrices: the NV form of the compiler's GLSL becomes the KHR form.
#include <algorithm>
#include <cstring>
#include <string>

#include "compiler/emit/kernel_sources.h"
#include "compiler/emit/spirv_module.h"
#include "compiler/emit/spirv_words.h"
#include "compiler/emit/vulkan_code.h"
#include "schema/kernel_params.h"
#include "tests/emit/kernel_folder.h"
#include "tests/emit/kernel_result.h"
#include "tests/support/catch.h"

using namespace rlx;
using namespace rlx::test;

namespace {

constexpr uint32_t kTypeMatrix = 4456;
constexpr uint32_t kLoad = 4457;
constexpr uint32_t kMulAdd = 4459;

// y = a product of 16 x 16 matrices in x, by the given types; `change` stands between the loads and
// the product.
std::string product_text(const std::string& left, const std::string& right,
                         const std::string& change) {
  return "#extension GL_KHR_memory_scope_semantics : require\n"
         "#extension GL_NV_cooperative_matrix : require\n#include \"lib/prelude.inc\"\n"
         "#include \"lib/storage.inc\"\n#include \"lib/matrices.glsl\"\n"
         "RLX_PARAMS(CopyParams);\nRLX_SHARED rlx_uvec4 panel[128];\nRLX_MAIN {\n"
         "  panel[rlx_local_index] = rlx_raw16(p.x, rlx_i64(rlx_local_index) * 16);\n"
         "  rlx_barrier();\n  " +
         left + " a;\n  " + right +
         " b;\n  coopMatLoadNV(a, panel, 0, 2, false);\n  coopMatLoadNV(b, panel, 32, 2, true);\n" +
         change +
         "  rlx_sum_matrix sum = coopMatMulAddNV(a, b, rlx_sum_matrix(0.0));\n"
         "  coopMatStoreNV(sum, panel, 64, 4, false);\n  rlx_barrier();\n"
         "  rlx_put16(p.y, rlx_i64(rlx_local_index) * 16, panel[64 + rlx_local_index]);\n}\n";
}

KernelResult compile_product(const std::string& left, const std::string& right,
                             const std::string& element, const std::string& change = "") {
  const TemporaryFolder folder;
  folder.write("shaders/pad.kernel", product_text(left, right, change));
  Diagnostics diagnostics;
  const auto sources = KernelSources::from_folder(folder.path(), diagnostics);
  REQUIRE(sources.has_value());
  return compile_vulkan(specialization({{"RLX_MATRIX", element}}), *sources, {});
}

// The instructions of the code with this opcode.
std::vector<std::vector<uint32_t>> instructions(const KernelCode& code, uint32_t op) {
  std::vector<uint32_t> words(code.bytes.size() / sizeof(uint32_t));
  std::memcpy(words.data(), code.bytes.data(), code.bytes.size());
  std::vector<std::vector<uint32_t>> found;
  for_each_instruction(words, [&](const Instruction& instruction) {
    if (static_cast<uint32_t>(instruction.op) == op)
      found.emplace_back(instruction.operands.begin(), instruction.operands.end());
  });
  return found;
}

}  // namespace

TEST_CASE("matrices take the KHR form, each type with its use") {
  const KernelCode code = code_of(compile_product("rlx_left_matrix", "rlx_right_matrix", "f16"));
  CHECK((code.features & mask_of(Feature::CooperativeMatrix)) != 0);
  CHECK((code.features & mask_of(Feature::CooperativeBf16)) == 0);
  CHECK(code.subgroup_size == RLX_MATRIX_SUBGROUP);
  const auto types = instructions(code, kTypeMatrix);
  REQUIRE(types.size() == 3);
  std::vector<uint32_t> uses;
  for (const auto& type : types) uses.push_back(type.at(5));
  std::ranges::sort(uses);
  CHECK(std::ranges::adjacent_find(uses) == uses.end());
  CHECK(instructions(code, kLoad).size() == 2);
  CHECK(instructions(code, kMulAdd).size() == 1);
  CHECK(instructions(code, spv::OpTypeCooperativeMatrixNV).empty());
  CHECK(instructions(code, spv::OpSpecConstant).empty());
}

TEST_CASE("operands become bf16 where the kernel says so, and sums stay f32") {
  const KernelCode code = code_of(compile_product("rlx_left_matrix", "rlx_right_matrix", "bf16"));
  CHECK((code.features & mask_of(Feature::CooperativeBf16)) != 0);
  const auto floats = instructions(code, spv::OpTypeFloat);
  const auto brain =
      std::ranges::find_if(floats, [](const auto& type) { return type.size() == 3; });
  REQUIRE(brain != floats.end());
  const auto types = instructions(code, kTypeMatrix);
  CHECK(std::ranges::count_if(types,
                              [&](const auto& type) { return type.at(1) == brain->at(0); }) == 2);
}

TEST_CASE("elements of bf16 operands are read and written by their bits") {
  const std::string change = "  a[1] = rlx_element_bf16(2.0 * rlx_value_bf16(a[3]));\n";
  const KernelCode code =
      code_of(compile_product("rlx_left_matrix", "rlx_right_matrix", "bf16", change));
  const auto floats = instructions(code, spv::OpTypeFloat);
  const auto brain =
      std::ranges::find_if(floats, [](const auto& type) { return type.size() == 3; });
  REQUIRE(brain != floats.end());
  // The one that is read becomes a half's bits, the one that is written comes from them.
  const auto casts = instructions(code, spv::OpBitcast);
  const auto to_brain =
      std::ranges::find_if(casts, [&](const auto& cast) { return cast.at(0) == brain->at(0); });
  REQUIRE(to_brain != casts.end());
  std::vector<uint32_t> stored;
  for (const auto& store : instructions(code, spv::OpStore)) stored.push_back(store.at(1));
  for (const auto& insert : instructions(code, spv::OpCompositeInsert))
    stored.push_back(insert.at(2));
  CHECK(std::ranges::count(stored, to_brain->at(1)) == 1);
  std::vector<uint32_t> read;
  for (const uint32_t op : {uint32_t{spv::OpLoad}, uint32_t{spv::OpCompositeExtract}}) {
    for (const auto& value : instructions(code, op))
      if (value.at(0) == brain->at(0)) read.push_back(value.at(1));
  }
  REQUIRE(read.size() == 1);
  CHECK(std::ranges::any_of(casts, [&](const auto& cast) { return cast.at(2) == read[0]; }));
}

TEST_CASE("one type for both operands of a product is refused") {
  const KernelResult result = compile_product("rlx_left_matrix", "rlx_left_matrix", "f16");
  const auto* fault = std::get_if<KernelFault>(&result);
  REQUIRE(fault != nullptr);
  CHECK(fault->message.find("for more than one operand of products") != std::string::npos);
}
