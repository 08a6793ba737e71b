// SPDX-License-Identifier: Apache-2.0
// Kernels to SPIR-V: what is compiled, what is declared, what is refused and how.
#include <cstring>
#include <spirv/unified1/spirv.hpp>

#include "compiler/emit/kernel_sources.h"
#include "compiler/emit/spirv_module.h"
#include "compiler/emit/vulkan_code.h"
#include "tests/emit/kernel_folder.h"
#include "tests/emit/kernel_result.h"
#include "tests/support/catch.h"

using namespace rlx;
using namespace rlx::test;

namespace {

KernelResult compile_text(const std::string& text, const Specialization& with = specialization(),
                          const KernelCodeOptions& options = {}) {
  const TemporaryFolder folder;
  folder.write("shaders/pad.kernel", text);
  Diagnostics diagnostics;
  const auto sources = KernelSources::from_folder(folder.path(), diagnostics);
  REQUIRE(sources.has_value());
  return compile_vulkan(with, *sources, options);
}

std::vector<uint32_t> words_of(const KernelCode& code) {
  std::vector<uint32_t> words(code.bytes.size() / sizeof(uint32_t));
  std::memcpy(words.data(), code.bytes.data(), code.bytes.size());
  return words;
}

bool declares_preserve(const KernelCode& code) {
  const std::vector<uint32_t> words = words_of(code);
  for (size_t i = 5; i < words.size(); i += words[i] >> 16) {
    if ((words[i] & 0xFFFFu) == spv::OpExecutionMode &&
        words[i + 2] == spv::ExecutionModeSignedZeroInfNanPreserve && words[i + 3] == 32) {
      return true;
    }
  }
  return false;
}

Specialization conversion(const std::string& from, const std::string& to) {
  return specialization({{"RLX_X", from}, {"RLX_Y", to}, {"RLX_COUNT", "100"}});
}

}  // namespace

TEST_CASE(
    "every storage type loads and stores, and asks for the features that it needs and no others") {
  const uint64_t base =
      mask_of(Feature::BufferAddress) | mask_of(Feature::ScalarLayout) | mask_of(Feature::Int64);
  const uint64_t float32 = mask_of(Feature::FloatControls32);
  const std::map<std::string, uint64_t> extra = {{"f32", float32},
                                                 {"f16", float32 | mask_of(Feature::Storage16)},
                                                 {"bf16", float32 | mask_of(Feature::Storage16)},
                                                 {"f64", mask_of(Feature::Float64)},
                                                 {"i8", mask_of(Feature::Storage8)},
                                                 {"u8", mask_of(Feature::Storage8)},
                                                 {"i16", mask_of(Feature::Storage16)},
                                                 {"u16", mask_of(Feature::Storage16)},
                                                 {"i32", 0},
                                                 {"u32", 0},
                                                 {"i64", 0},
                                                 {"bool", mask_of(Feature::Storage8)}};
  for (const auto& [name, features] : extra) {
    INFO(name);
    const KernelCode code =
        code_of(compile_text(kernel_text(convert_body()), conversion(name, name)));
    CHECK(code.features == (base | features));
    CHECK(code.entry_point == "main");
    CHECK(code.shared_bytes == 0);
  }
}

TEST_CASE("NaN, infinities and signed zeros are preserved unless asked otherwise") {
  const std::string text = kernel_text(convert_body());
  CHECK(declares_preserve(code_of(compile_text(text, conversion("f32", "f32")))));
  CHECK_FALSE(declares_preserve(
      code_of(compile_text(text, conversion("f32", "f32"), {.float_controls = false}))));
  CHECK_FALSE(declares_preserve(code_of(compile_text(text, conversion("i32", "i32")))));
}

TEST_CASE("the device's own conversions to halves are asked for where halves are written") {
  const uint64_t native = mask_of(Feature::NativeHalves) | mask_of(Feature::Float16);
  const std::string text = kernel_text(convert_body());
  const KernelCodeOptions options{.native_halves = true};
  CHECK((code_of(compile_text(text, conversion("f32", "f16"), options)).features & native) ==
        native);
  CHECK((code_of(compile_text(text, conversion("f32", "f16"))).features & native) == 0);
  CHECK((code_of(compile_text(text, conversion("f32", "bf16"), options)).features & native) == 0);
  CHECK((code_of(compile_text(text, conversion("i32", "i64"), options)).features & native) == 0);
}

TEST_CASE("the workgroup comes from the specialization and shared memory is counted") {
  Specialization wide = conversion("f32", "f32");
  wide.workgroup = {.x = 8, .y = 4, .z = 2};
  const KernelCode code = code_of(compile_text(
      kernel_text(
          "  tile[rlx_local_index] = rlx_load_f32(p.x, rlx_local_index);\n  rlx_barrier();\n"
          "  rlx_store_f32(p.y, rlx_local_index, tile[63 - rlx_local_index]);",
          "RLX_SHARED float tile[100];"),
      wide));
  CHECK(code.workgroup == Extent3{.x = 8, .y = 4, .z = 2});
  CHECK(code.shared_bytes == 400);
  CHECK(code.subgroup_size == 0);
}

TEST_CASE("generated text is included by name") {
  Specialization with = specialization();
  with.generated["generated/body.inc"] = "rlx_store_u32(p.y, 0, 7u);\n";
  const KernelCode code =
      code_of(compile_text(kernel_text("#include \"generated/body.inc\""), with));
  CHECK(words_of(code).front() == spv::MagicNumber);
  const std::string fault =
      fault_of(compile_text(kernel_text("#include \"generated/other.inc\""), with));
  CHECK(fault.find("generated/other.inc") != std::string::npos);
}

TEST_CASE("a kernel includes nothing outside the sources") {
  CHECK(
      fault_of(compile_text(kernel_text("#include \"lib/../pad.kernel\""))).find("no such file") !=
      std::string::npos);
  CHECK(fault_of(compile_text(kernel_text("#include \"/etc/passwd\""))).find("no such file") !=
        std::string::npos);
}

TEST_CASE("an error in a source names file and line") {
  const std::string fault = fault_of(compile_text(kernel_text("  const int a = ;")));
  CHECK(fault.find("shaders/pad.kernel:6:") != std::string::npos);
}

TEST_CASE("params of another struct are refused with both sizes") {
  std::string text = kernel_text("rlx_store_u32(p.y, 0, 1u);");
  text.replace(text.find("CopyParams"), 10, "NormParams");
  const std::string fault = fault_of(compile_text(text));
  CHECK(fault.find("48 bytes") != std::string::npos);
  CHECK(fault.find("16") != std::string::npos);
}

TEST_CASE("a capability without a row in features.def is refused") {
  const std::string fault = fault_of(compile_text(
      "#extension GL_KHR_shader_subgroup_quad : require\n#include \"lib/prelude.inc\"\n"
      "#include \"lib/storage.inc\"\nRLX_PARAMS(CopyParams);\n"
      "RLX_MAIN { rlx_store_u32(p.y, 0, subgroupQuadBroadcast(rlx_load_u32(p.x, rlx_local_x), 0)); "
      "}\n"));
  CHECK(fault.find("capability 68") != std::string::npos);
}

TEST_CASE("another local size than the specialization's is refused") {
  std::string text = kernel_text("rlx_store_u32(p.y, 0, 1u);");
  text.replace(text.find("#include \"lib/prelude"), 0,
               "#undef RLX_BLOCK_X\n#define RLX_BLOCK_X 32\n");
  CHECK(fault_of(compile_text(text)).find("workgroup") != std::string::npos);
}

TEST_CASE("embedded kernel sources are the tree's files, byte for byte") {
  size_t kernels = 0;
  for (const auto& [path, text] : embedded_kernel_sources()) {
    INFO(path);
    std::ifstream stream(path, std::ios::binary);
    REQUIRE(stream);
    const std::string file{std::istreambuf_iterator<char>(stream),
                           std::istreambuf_iterator<char>()};
    CHECK((file == text));
    if (path.ends_with(".kernel")) ++kernels;
  }
  CHECK(kernels > 0);
}

TEST_CASE("a folder without kernels is refused") {
  const TemporaryFolder folder;
  Diagnostics diagnostics;
  CHECK_FALSE(KernelSources::from_folder(folder.path(), diagnostics).has_value());
  CHECK(diagnostics.text().find("neither shaders nor cuda_kernels") != std::string::npos);
}

TEST_CASE("everything that code depends on is in its inputs") {
  const TemporaryFolder folder;
  folder.write("shaders/pad.kernel", kernel_text("#include \"lib/extra.inc\""));
  const auto inputs = [&](const std::string& extra, const Specialization& with,
                          const KernelCodeOptions& options) {
    folder.write("shaders/lib/extra.inc", extra);
    Diagnostics diagnostics;
    return vulkan_code_inputs(with, *KernelSources::from_folder(folder.path(), diagnostics),
                              options)
        .value();
  };
  const std::string first = inputs("// a", specialization({{"A", "1"}}), {});
  CHECK(first == inputs("// a", specialization({{"A", "1"}}), {}));
  CHECK(first != inputs("// b", specialization({{"A", "1"}}), {}));
  CHECK(first != inputs("// a", specialization({{"A", "2"}}), {}));
  CHECK(first != inputs("// a", specialization({{"A", "1"}}), {.float_controls = false}));
  CHECK(first != inputs("// a", specialization({{"A", "1"}}), {.native_halves = true}));
  Specialization block = specialization({{"A", "1"}});
  block.workgroup.x = 32;
  CHECK(first != inputs("// a", block, {}));
}
