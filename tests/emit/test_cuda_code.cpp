// SPDX-License-Identifier: Apache-2.0
// Kernels to CUDA code: what is compiled, what is read back, what is refused and how.
#include "compiler/emit/cuda_code.h"
#include "compiler/emit/kernel_sources.h"
#include "runtime/plan/contract.h"
#include "runtime/plan/cuda_code.h"
#include "tests/emit/cuda_support.h"
#include "tests/emit/kernel_folder.h"
#include "tests/emit/kernel_result.h"
#include "tests/support/catch.h"

using namespace rlx;
using namespace rlx::test;

namespace {

using CudaResult = std::variant<CudaCode, KernelFault>;

KernelSources sources_with(const std::string& text) {
  const TemporaryFolder folder;
  folder.write("cuda_kernels/pad.cu", text);
  Diagnostics diagnostics;
  auto sources = KernelSources::from_folder(folder.path(), diagnostics);
  REQUIRE(sources.has_value());
  return std::move(*sources);
}

CudaResult compile_text(const std::string& text, const Specialization& with = specialization(),
                        const char* architecture = "sm_90a") {
  return compile_cuda(*present_nvrtc(), with, sources_with(text),
                      *find_cuda_architecture(architecture));
}

Specialization conversion(const std::string& from, const std::string& to) {
  return specialization({{"RLX_X", from}, {"RLX_Y", to}, {"RLX_COUNT", "100"}});
}

CubinFacts facts_of(const KernelCode& cubin) {
  const std::optional<CubinFacts> facts =
      read_cubin(cubin.bytes, cubin.entry_point, cubin.architecture);
  REQUIRE(facts.has_value());
  return *facts;
}

}  // namespace

TEST_CASE("every storage type loads and stores on every architecture") {
  if (present_nvrtc() == nullptr) return;
  for (const CudaArchitecture& architecture : all_cuda_architectures()) {
    if (!architecture.by_default) continue;
    for (const char* name :
         {"f32", "f16", "bf16", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "bool"}) {
      INFO(architecture.name << " " << name);
      const CudaCode code = code_of(compile_text(kernel_text(convert_body()),
                                                 conversion(name, name), architecture.name.data()));
      CHECK(code.cubin.format == CodeFormat::Cubin);
      CHECK(code.cubin.architecture == architecture.number);
      CHECK(code.cubin.entry_point == "rlx_main");
      CHECK(code.cubin.shared_bytes == 0);
      CHECK(code.cubin.waits_for_predecessors == (architecture.number >= 90));
      CHECK(check_cubin(code.cubin.bytes, architecture.number).empty());
      CHECK(check_ptx(code.ptx.bytes, "rlx_main", architecture.number).empty());
    }
  }
}

TEST_CASE("code of every architecture has a place for its contract, which changes nothing else") {
  if (present_nvrtc() == nullptr) return;
  const Sha256Digest contract = sha256(std::as_bytes(std::span("contract", 8)));
  for (const CudaArchitecture& architecture : all_cuda_architectures()) {
    if (!architecture.by_default) continue;
    INFO(architecture.name);
    const CudaCode code = code_of(compile_text(kernel_text(convert_body()),
                                               conversion("f32", "f32"), architecture.name.data()));
    const auto cubin = with_contract(fb::CodeFormat::Cubin, code.cubin.bytes, contract);
    REQUIRE(cubin.has_value());
    REQUIRE(cubin->size() == code.cubin.bytes.size());
    size_t changed = 0;
    for (size_t i = 0; i < cubin->size(); ++i) changed += (*cubin)[i] != code.cubin.bytes[i];
    CHECK(changed <= contract.size());
    CHECK(read_cubin(*cubin, "rlx_main", architecture.number)->contract == contract);

    const auto ptx = with_contract(fb::CodeFormat::Ptx, code.ptx.bytes, contract);
    REQUIRE(ptx.has_value());
    CHECK(check_ptx(*ptx, "rlx_main", architecture.number).empty());
    CHECK(read_ptx_contract(*ptx) == contract);
    CHECK(with_contract(fb::CodeFormat::Ptx, *ptx, Sha256Digest{}) ==
          with_contract(fb::CodeFormat::Ptx, code.ptx.bytes, Sha256Digest{}));
  }
}

TEST_CASE("the facts of a launch are read back from the cubin") {
  if (present_nvrtc() == nullptr) return;
  Specialization wide = conversion("f32", "f32");
  wide.workgroup = {.x = 8, .y = 4, .z = 2};
  const std::string text = kernel_text(
      "  float* dynamic = reinterpret_cast<float*>(rlx_shared);\n"
      "  tile[rlx_local_index] = dynamic[rlx_local_index] = rlx_load_f32(p.x, rlx_local_index);\n"
      "  rlx_barrier();\n"
      "  rlx_store_f32(p.y, rlx_local_index, tile[63 - rlx_local_index] + dynamic[5]);",
      "RLX_SHARED float tile[128];\nRLX_DYNAMIC_SHARED(RLX_BLOCK_SIZE * 4 + 1024);\n"
      "RLX_CLUSTER(2);\nRLX_ALL_AT_ONCE;");
  for (const char* architecture : {"sm_80", "sm_90a", "sm_120"}) {
    INFO(architecture);
    const bool late = architecture != std::string_view("sm_80");
    const KernelCode code = code_of(compile_text(text, wide, architecture)).cubin;
    CHECK(code.workgroup == Extent3{.x = 8, .y = 4, .z = 2});
    CHECK(code.dynamic_shared_bytes == 1280);
    CHECK(code.shared_bytes == 1280 + 512);
    CHECK(code.cluster_x == (late ? 2u : 1u));
    CHECK(code.runs_together);
    const CubinFacts facts = facts_of(code);
    CHECK(facts.registers > 0);
    CHECK(facts.local_bytes == 0);
    CHECK(facts.params_bytes == 16);
    CHECK(facts.max_threads == 64);
    CHECK(facts.static_shared_bytes == 512);
    CHECK(facts.cluster_x == 2);
  }
}

TEST_CASE("more shared memory than the architecture has is refused") {
  if (present_nvrtc() == nullptr) return;
  const std::string text = kernel_text("rlx_store_u32(p.y, 0, rlx_shared[rlx_local_x]);",
                                       "RLX_DYNAMIC_SHARED(100 * 1024);");
  code_of(compile_text(text, specialization(), "sm_90a"));
  CHECK(fault_of(compile_text(text, specialization(), "sm_86")) ==
        "uses 102400 bytes of shared memory, sm_86 has 101376");
}

TEST_CASE("spills are counted, and explained by a comment") {
  if (present_nvrtc() == nullptr) return;
  const std::string body =
      "  int values[100];\n"
      "  for (int i = 0; i < 100; ++i) values[i] = rlx_load_i32(p.x, i);\n"
      "  rlx_store_i32(p.y, 0, values[rlx_load_i32(p.x, 100) % 100]);";
  for (const bool explained : {false, true}) {
    const std::string text = kernel_text(
        body, explained ? "// ptxas: spills because the index is known at run time only" : "");
    const KernelCode cubin = code_of(compile_text(text)).cubin;
    CHECK(facts_of(cubin).local_bytes >= 400);
    CHECK((unexplained_local_bytes(cubin, specialization(), sources_with(text)) == 0) == explained);
  }
}

TEST_CASE("generated text is included by name into CUDA code") {
  if (present_nvrtc() == nullptr) return;
  Specialization with = specialization();
  with.generated["generated/body.inc"] = "rlx_store_u32(p.y, 0, 7u);\n";
  code_of(compile_text(kernel_text("#include \"generated/body.inc\""), with));
  const std::string fault =
      fault_of(compile_text(kernel_text("#include \"generated/other.inc\""), with));
  CHECK(fault.find("generated/other.inc(1): ") != std::string::npos);
  CHECK(fault.find("no such file") != std::string::npos);
  code_of(compile_text(kernel_text("#if 0\n#include \"generated/other.inc\"\n#endif"), with));
}

TEST_CASE("a CUDA kernel includes nothing outside the sources") {
  if (present_nvrtc() == nullptr) return;
  CHECK(fault_of(compile_text(kernel_text("#include \"lib/../pad.cu\""))).find("no such file") !=
        std::string::npos);
  CHECK(fault_of(compile_text(kernel_text("#include \"/etc/hostname\""))).find("no such file") !=
        std::string::npos);
}

TEST_CASE("an error in a CUDA source names file and line") {
  if (present_nvrtc() == nullptr) return;
  const std::string fault = fault_of(compile_text(kernel_text("  const int a = ;")));
  CHECK(fault.find("cuda_kernels/pad.cu(6): error") != std::string::npos);
}

TEST_CASE("CUDA code with other params or another workgroup is refused") {
  if (present_nvrtc() == nullptr) return;
  std::string params = kernel_text("rlx_store_u32(p.y, 0, 1u);");
  params.replace(params.find("CopyParams"), 10, "NormParams");
  CHECK(fault_of(compile_text(params)).find("takes 48 bytes of params") != std::string::npos);
  const std::string block =
      "#undef RLX_BLOCK_X\n#define RLX_BLOCK_X 32\n" + kernel_text("rlx_store_u32(p.y, 0, 1u);");
  CHECK(fault_of(compile_text(block)).find("bounded to 32 threads") != std::string::npos);
  CHECK(
      fault_of(compile_text("extern \"C\" __global__ void other() {}\n")).find("has no RLX_MAIN") !=
      std::string::npos);
}

TEST_CASE("a kernel that prefetches waits once, by itself") {
  if (present_nvrtc() == nullptr) return;
  std::string text = kernel_text(
      "  const float weight = rlx_load_f32(p.x, 0);\n  rlx_wait_for_predecessors();\n"
      "  rlx_store_f32(p.y, 0, weight);");
  text.replace(text.find("RLX_MAIN"), 8, "RLX_MAIN_PREFETCH");
  CHECK(code_of(compile_text(text)).cubin.waits_for_predecessors);
  text.erase(text.find("rlx_wait_for_predecessors();"), 28);
  CHECK_FALSE(code_of(compile_text(text)).cubin.waits_for_predecessors);
}

TEST_CASE("arithmetic is IEEE's: subnormals, divisions and roots are not approximated") {
  if (present_nvrtc() == nullptr) return;
  const CudaCode code = code_of(
      compile_text(kernel_text("  const float x = rlx_load_f32(p.x, 0), z = rlx_load_f32(p.x, 1);\n"
                               "  rlx_store_f32(p.y, 0, x / z + sqrtf(x) * z);")));
  const std::string ptx(reinterpret_cast<const char*>(code.ptx.bytes.data()));
  CHECK(ptx.find("div.rn.f32") != std::string::npos);
  CHECK(ptx.find("sqrt.rn.f32") != std::string::npos);
  CHECK(ptx.find(".ftz") == std::string::npos);
}

TEST_CASE("everything that CUDA code depends on is in its inputs") {
  if (present_nvrtc() == nullptr) return;
  const TemporaryFolder folder;
  folder.write("cuda_kernels/pad.cu", kernel_text("#include \"lib/extra.inc\""));
  const auto inputs = [&](const std::string& extra, const Specialization& with,
                          const char* architecture) {
    folder.write("cuda_kernels/lib/extra.inc", extra);
    Diagnostics diagnostics;
    return cuda_code_inputs(*present_nvrtc(), with,
                            *KernelSources::from_folder(folder.path(), diagnostics),
                            *find_cuda_architecture(architecture))
        .value();
  };
  const std::string first = inputs("// a", specialization({{"A", "1"}}), "sm_80");
  CHECK(first == inputs("// a", specialization({{"A", "1"}}), "sm_80"));
  CHECK(first != inputs("// b", specialization({{"A", "1"}}), "sm_80"));
  CHECK(first != inputs("// a", specialization({{"A", "2"}}), "sm_80"));
  CHECK(first != inputs("// a", specialization({{"A", "1"}}), "sm_86"));
  CHECK(first.find("nvrtc " + present_nvrtc()->version()) != std::string::npos);
  Specialization block = specialization({{"A", "1"}});
  block.workgroup.x = 32;
  CHECK(first != inputs("// a", block, "sm_80"));
}
