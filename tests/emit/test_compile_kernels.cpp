// SPDX-License-Identifier: Apache-2.0
// Compiling all kernels of a plan: threads, cache, diagnostics.
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/emit/compile_kernels.h"
#include "tests/emit/kernel_folder.h"
#include "tests/support/catch.h"

using namespace rlx;
using namespace rlx::test;

namespace {

struct Kernels {
  TemporaryFolder folder;
  std::string cache = folder.path() + "/cache/kernels";
  Diagnostics diagnostics;  // of the last compilation
  KernelSet set = kernel_set({specialization({{"VALUE", "1u"}}), specialization({{"VALUE", "2u"}}),
                              specialization({{"VALUE", "3u"}})});

  Kernels() { folder.write("shaders/pad.kernel", kernel_text("rlx_store_u32(p.y, 0, VALUE);")); }

  CompiledKernels compile(uint32_t jobs, bool use_cache, CacheTrust trust = CacheTrust::OnlyOwn) {
    CompileKernelsOptions options{
        .jobs = jobs, .cache_folder = {}, .kernels_folder = folder.path()};
    if (use_cache) options.cache_folder = cache;
    options.cache_trust = trust;
    diagnostics = {};
    auto compiled = compile_kernels(set, options, diagnostics);
    INFO(diagnostics.text());
    REQUIRE(compiled.has_value());
    return *compiled;
  }

  std::vector<std::filesystem::path> cache_files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& file : std::filesystem::directory_iterator(cache))
      files.push_back(file.path());
    std::sort(files.begin(), files.end());
    return files;
  }
};

std::string read(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("code does not depend on the number of threads or on the cache") {
  Kernels kernels;
  const CompiledKernels reference = kernels.compile(1, false);
  CHECK(reference.variants.size() == 3);
  CHECK(reference.variants[0] != reference.variants[1]);
  CHECK(kernels.compile(4, false).variants == reference.variants);
  const CompiledKernels cold = kernels.compile(2, true);
  CHECK(cold.cache_hits == 0);
  CHECK(cold.variants == reference.variants);
  const CompiledKernels warm = kernels.compile(2, true);
  CHECK(warm.cache_hits == 3);
  CHECK(warm.variants == reference.variants);
}

TEST_CASE("an altered or truncated cache entry is a miss and is replaced") {
  Kernels kernels;
  const CompiledKernels reference = kernels.compile(1, true);
  const auto files = kernels.cache_files();
  REQUIRE(files.size() == 3);
  const std::string whole = read(files[0]);
  std::vector<std::string> damaged = {"", whole.substr(0, 7), whole.substr(0, whole.size() - 1),
                                      whole + "x"};
  for (const size_t position :
       {size_t{0}, size_t{9}, size_t{20}, whole.size() / 2, whole.size() - 1}) {
    damaged.push_back(whole);
    damaged.back()[position] = static_cast<char>(damaged.back()[position] ^ 1);
  }
  for (const std::string& entry : damaged) {
    std::ofstream(files[0], std::ios::binary) << entry;
    const CompiledKernels compiled = kernels.compile(1, true);
    CHECK(compiled.cache_hits == 2);
    CHECK(compiled.variants == reference.variants);
    CHECK(read(files[0]) == whole);
  }
  CHECK(kernels.cache_files().size() == 3);
}

TEST_CASE("a cache entry under another entry's name is a miss") {
  Kernels kernels;
  const CompiledKernels reference = kernels.compile(1, true);
  const auto files = kernels.cache_files();
  REQUIRE(files.size() == 3);
  std::filesystem::rename(files[0], kernels.folder.path() + "/kept");
  std::filesystem::rename(files[1], files[0]);
  std::filesystem::rename(kernels.folder.path() + "/kept", files[1]);
  const CompiledKernels swapped = kernels.compile(1, true);
  CHECK(swapped.cache_hits == 1);
  CHECK(swapped.variants == reference.variants);
  CHECK(kernels.compile(1, true).cache_hits == 3);  // mended on the way
}

TEST_CASE("a cache entry is a regular file of a sane size, or a miss that is left alone") {
  Kernels kernels;
  const CompiledKernels reference = kernels.compile(1, true);
  const auto files = kernels.cache_files();
  REQUIRE(files.size() == 3);
  const std::string whole = read(files[0]);
  const std::string aside = kernels.folder.write("aside", whole);
  std::filesystem::remove(files[0]);
  const auto check_miss = [&](uint32_t hits) {
    const CompiledKernels compiled = kernels.compile(2, true);
    CHECK(compiled.cache_hits == hits);
    CHECK(compiled.variants == reference.variants);
  };
  std::filesystem::create_symlink(aside, files[0]);
  check_miss(2);
  CHECK(std::filesystem::is_symlink(files[0]));
  std::filesystem::remove(files[0]);
  REQUIRE(::mkfifo(files[0].c_str(), 0600) == 0);
  check_miss(2);
  CHECK(std::filesystem::is_fifo(files[0]));
  std::filesystem::remove(files[0]);
  std::filesystem::create_symlink("/dev/zero", files[0]);
  check_miss(2);
  std::filesystem::remove(files[0]);
  std::ofstream(files[0], std::ios::binary) << whole;
  std::filesystem::resize_file(files[0], uint64_t{100} << 20);  // sparse
  check_miss(2);
  check_miss(3);
  // An entry that others may write to.
  REQUIRE(::chmod(files[0].c_str(), 0666) == 0);
  check_miss(2);
  check_miss(3);
}

TEST_CASE("a cache folder that others may write to is used only where the user named it") {
  Kernels kernels;
  kernels.compile(1, true);
  struct stat facts {};
  REQUIRE(::stat(kernels.cache.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0700);
  for (const mode_t mode : {0770u, 0707u, 01777u}) {
    REQUIRE(::chmod(kernels.cache.c_str(), mode) == 0);
    CHECK(kernels.compile(1, true).cache_hits == 0);
    REQUIRE(kernels.diagnostics.all().size() == 1);
    CHECK(kernels.diagnostics.text().find("others may write to its folder") != std::string::npos);
    CHECK(kernels.compile(1, true, CacheTrust::Anyone).cache_hits == 3);
    CHECK(kernels.diagnostics.all().empty());
  }
  REQUIRE(::chmod(kernels.cache.c_str(), 0755) == 0);
  CHECK(kernels.compile(1, true).cache_hits == 3);
  if (::geteuid() != 0) return;
  REQUIRE(::chown(kernels.cache.c_str(), 12345, 12345) == 0);
  CHECK(kernels.compile(1, true).cache_hits == 0);
}

TEST_CASE("a changed source is not served from the cache") {
  Kernels kernels;
  kernels.compile(1, true);
  kernels.folder.write("shaders/pad.kernel", kernel_text("rlx_store_u32(p.y, 1, VALUE);"));
  CHECK(kernels.compile(1, true).cache_hits == 0);
}

TEST_CASE("a cache folder that cannot be made is no error") {
  Kernels kernels;
  kernels.folder.write("cache", "a file where the folder should be");
  CHECK(kernels.compile(1, true).cache_hits == 0);
}

TEST_CASE("every kernel that fails is one diagnostic naming kernel, nodes and line") {
  Kernels kernels;
  kernels.folder.write("shaders/pad.kernel",
                       kernel_text("rlx_store_u32(p.y, 0, VALUE + nothing);"));
  Diagnostics diagnostics;
  const CompileKernelsOptions options{
      .jobs = 2, .cache_folder = {}, .kernels_folder = kernels.folder.path()};
  CHECK_FALSE(compile_kernels(kernels.set, options, diagnostics).has_value());
  REQUIRE(diagnostics.error_count() == 3);
  const std::string text = to_string(diagnostics.all()[1]);
  CHECK(text.find("kernel \"pad\" for pad \"n1\" does not compile") != std::string::npos);
  CHECK(text.find("shaders/pad.kernel:6: error: 'nothing' : undeclared identifier") !=
        std::string::npos);
  CHECK(text.find("VALUE=2u") != std::string::npos);
  CHECK(text.find("[kernel]") != std::string::npos);
}

TEST_CASE("programs share kernels of equal specialization and list their nodes") {
  Program first;
  first.entry = "a";
  const KernelInstanceId one = first.intern(specialization({{"VALUE", "1u"}}));
  first.intern(specialization({{"VALUE", "9u"}}));  // no step uses it
  first.steps.push_back({.kind = StepKind::Dispatch, .kernel = one, .node = "x", .op = "pad"});
  Program second = first;
  second.entry = "b";
  second.steps[0].node = "y";
  const Target* vulkan = find_target("vulkan");
  const Target* cuda = find_target("cuda");
  const std::vector<TargetProgram> programs = {{&first, vulkan}, {&second, cuda}};
  const KernelSet set = gather_kernels(programs);
  REQUIRE(set.kernels.size() == 1);
  CHECK(set.kernels[0].targets == TargetSet::Every);
  CHECK(set.targets == TargetSet::Every);
  CHECK(set.kernels[0].nodes == std::vector<std::string>{"pad \"x\"", "pad \"y\""});
  CHECK(set.index_of_instance[1][0] == 0u);
  CHECK_FALSE(set.index_of_instance[1][1].has_value());
}
