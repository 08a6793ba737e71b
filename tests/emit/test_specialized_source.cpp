// SPDX-License-Identifier: Apache-2.0
// Which text a kernel's name and its includes mean for each language.
#include <optional>

#include "compiler/dispatch/target.h"
#include "compiler/emit/specialized_source.h"
#include "runtime/plan/target_row.h"
#include "tests/emit/kernel_folder.h"
#include "tests/support/catch.h"

using namespace rlx;
using namespace rlx::test;

namespace {

constexpr const SourceLanguage& kGlsl = language_of(TargetKind::Vulkan);
constexpr const SourceLanguage& kCuda = language_of(TargetKind::Cuda);

KernelSources sources_of(const TemporaryFolder& folder) {
  Diagnostics diagnostics;
  auto sources = KernelSources::from_folder(folder.path(), diagnostics);
  REQUIRE(sources.has_value());
  return std::move(*sources);
}

}  // namespace

TEST_CASE("a kernel of both languages has one text, and a language's own text comes before it") {
  const TemporaryFolder folder;
  folder.write("shaders/pad.kernel", "shared");
  const KernelSources shared = sources_of(folder);
  for (const SourceLanguage& language : kLanguages) {
    const KernelText kernel = find_kernel_text(specialization(), shared, language);
    CHECK(kernel.path == "shaders/pad.kernel");
    CHECK(*kernel.text == "shared");
  }
  folder.write("shaders/vulkan/pad.comp", "of Vulkan");
  folder.write("cuda_kernels/pad.cu", "of CUDA");
  const KernelSources own = sources_of(folder);
  CHECK(find_kernel_text(specialization(), own, kGlsl).path == "shaders/vulkan/pad.comp");
  CHECK(*find_kernel_text(specialization(), own, kGlsl).text == "of Vulkan");
  CHECK(*find_kernel_text(specialization(), own, kCuda).text == "of CUDA");
}

TEST_CASE("an include is the language's own file, or else that of both languages") {
  const TemporaryFolder folder;
  folder.write("shaders/lib/extra.inc", "shared");
  folder.write("cuda_kernels/lib/extra.inc", "of CUDA");
  folder.write("shaders/vulkan/lib/only.glsl", "of Vulkan");
  const KernelSources sources = sources_of(folder);
  const auto text_of = [&](const std::string& name, const SourceLanguage& language) {
    const std::string* text = find_include(name, specialization(), sources, language);
    return text == nullptr ? std::string("none") : *text;
  };
  CHECK(text_of("lib/extra.inc", kGlsl) == "shared");
  CHECK(text_of("lib/extra.inc", kCuda) == "of CUDA");
  CHECK(text_of("lib/only.glsl", kGlsl) == "of Vulkan");
  CHECK(text_of("lib/only.glsl", kCuda) == "none");
  CHECK(text_of("vulkan/lib/only.glsl", kGlsl) == "none");
  CHECK(text_of("lib/../lib/extra.inc", kGlsl) == "none");
}

TEST_CASE("a source where none is looked for is refused") {
  for (const char* path : {"shaders/pad.comp", "shaders/pad.cu", "shaders/lib/extra.glsl",
                           "cuda_kernels/pad.kernel", "shaders/vulkan/deep/pad.comp"}) {
    INFO(path);
    const TemporaryFolder folder;
    folder.write(path, "");
    Diagnostics diagnostics;
    CHECK_FALSE(KernelSources::from_folder(folder.path(), diagnostics).has_value());
    CHECK(diagnostics.text().find("where none is looked for") != std::string::npos);
    CHECK(diagnostics.text().find(path) != std::string::npos);
  }
}

TEST_CASE("a kernel has one text: its row says whether of every language or of which") {
  constexpr size_t kKernelCount = 0
#define RLX_KERNEL(name, params, determinism, targets, needs) +1
#include "schema/kernels.def"
#undef RLX_KERNEL
      ;
  const KernelSources sources = KernelSources::embedded();
  for (size_t id = 0; id < kKernelCount; ++id) {
    const KernelRow& row = kernel_row(static_cast<KernelId>(id));
    const std::string name(row.name);
    INFO(name);
    const auto is_in = [&](const SourceLanguage& language) {
      return sources.find(std::string(language.folder) + "/" + name +
                          std::string(language.kernel_extension)) != nullptr;
    };
    CHECK(is_in(kSharedLanguage) == (row.targets == TargetSet::Every));
    for (const TargetKind target : kTargetKinds) {
      INFO(language_of(target).folder);
      CHECK(is_in(language_of(target)) ==
            (row.targets != TargetSet::Every && contains(row.targets, target)));
    }
  }
}

TEST_CASE("a target offers the kernels that its kind has a text of and its profile bears") {
  const auto offers = [](std::string_view name, KernelId kernel) {
    return find_target(name)->offers(kernel);
  };
  for (const char* name : {"vulkan", "vulkan-nvidia", "cuda"})
    CHECK(offers(name, KernelId::softmax));
  CHECK_FALSE(offers("vulkan", KernelId::matmul_coop));
  CHECK(offers("vulkan-nvidia", KernelId::matmul_coop));
  CHECK_FALSE(offers("cuda", KernelId::matmul_coop));
  CHECK_FALSE(offers("vulkan-nvidia", KernelId::matmul_mma));
  CHECK(offers("cuda", KernelId::matmul_mma));
}

TEST_CASE("the first profile of a kind is named as the kind") {
  std::optional<TargetKind> kind;
  for (const Target& target : all_targets()) {
    if (kind == target.kind) continue;
    kind = target.kind;
    CHECK(target.name == target_row(static_cast<fb::TargetKind>(target.kind)).flag);
  }
}
