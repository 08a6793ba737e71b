// SPDX-License-Identifier: Apache-2.0
// Finding NVRTC, and its few functions declared here so that no CUDA header is needed.
#include "compiler/emit/nvrtc.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "compiler/support/check.h"
#include "compiler/support/checked.h"

namespace rlx {

// As nvrtc.h declares them; every function returns 0 where it succeeded.
struct Nvrtc::Functions {
  using Program = void*;
  const char* (*error_string)(int result) = nullptr;
  int (*version)(int* major, int* minor) = nullptr;
  int (*architecture_count)(int* count) = nullptr;
  int (*architectures)(int* numbers) = nullptr;
  int (*create)(Program* program, const char* source, const char* name, int header_count,
                const char* const* headers, const char* const* header_names) = nullptr;
  int (*destroy)(Program* program) = nullptr;
  int (*compile)(Program program, int option_count, const char* const* options) = nullptr;
  int (*log_size)(Program program, size_t* size_bytes) = nullptr;
  int (*log)(Program program, char* text) = nullptr;
  int (*ptx_size)(Program program, size_t* size_bytes) = nullptr;
  int (*ptx)(Program program, char* text) = nullptr;
  int (*cubin_size)(Program program, size_t* size_bytes) = nullptr;
  int (*cubin)(Program program, char* bytes) = nullptr;

  // The name of a function that the library lacks, else empty.
  std::string load(void* library);
  // What a call that may not fail returned.
  void expect(int result, const char* call) const {
    RLX_CHECK(result == 0, std::string(call) + ": " + error_string(result));
  }
};

namespace {

constexpr int kOutOfMemory = 1;        // NVRTC_ERROR_OUT_OF_MEMORY
constexpr int kCompilationFailed = 6;  // NVRTC_ERROR_COMPILATION
constexpr std::array kNames = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
constexpr const char* kToolkitFolder = "/usr/local/cuda/lib64";
constexpr const char* kHint =
    "install NVIDIA's package cuda-nvrtc-13-0 or, with pip, nvidia-cuda-nvrtc, and name the "
    "library with --nvrtc where the loader does not find it; --target vulkan needs none";

// The files that may be the library, best first.
std::vector<std::string> candidates(const std::optional<std::string>& path) {
  std::error_code ignored;
  if (path && !std::filesystem::is_directory(*path, ignored)) return {*path};
  std::vector<std::filesystem::path> folders;
  if (path) {
    folders = {*path};
  } else {
    folders = {"", kToolkitFolder};  // a name without a folder is the loader's
  }
  std::vector<std::string> files;
  for (const char* name : kNames) {
    for (const std::filesystem::path& folder : folders) files.push_back((folder / name).string());
  }
  return files;
}

// A text of a program through a pair of calls: its size with the zero byte that ends it, then
// itself.
template <class Size, class Get, class Program>
std::string take(Size size, Get get, Program program) {
  size_t size_bytes = 0;
  if (size(program, &size_bytes) != 0) return {};
  std::string text(size_bytes, '\0');
  if (get(program, text.data()) != 0) return {};
  return text;
}

std::string without_zeros(std::string text) {
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

}  // namespace

std::string Nvrtc::Functions::load(void* library) {
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr && missing.empty()) missing = name;
  };
  find(error_string, "nvrtcGetErrorString");
  find(version, "nvrtcVersion");
  find(architecture_count, "nvrtcGetNumSupportedArchs");
  find(architectures, "nvrtcGetSupportedArchs");
  find(create, "nvrtcCreateProgram");
  find(destroy, "nvrtcDestroyProgram");
  find(compile, "nvrtcCompileProgram");
  find(log_size, "nvrtcGetProgramLogSize");
  find(log, "nvrtcGetProgramLog");
  find(ptx_size, "nvrtcGetPTXSize");
  find(ptx, "nvrtcGetPTX");
  find(cubin_size, "nvrtcGetCUBINSize");
  find(cubin, "nvrtcGetCUBIN");
  return missing;
}

Nvrtc::Nvrtc(void* library, std::unique_ptr<const Functions> functions)
    : library_(library), functions_(std::move(functions)) {
  int major = 0;
  int minor = 0;
  functions_->expect(functions_->version(&major, &minor), "nvrtcVersion");
  major_ = narrow<uint32_t>(major);
  minor_ = narrow<uint32_t>(minor);
  int count = 0;
  functions_->expect(functions_->architecture_count(&count), "nvrtcGetNumSupportedArchs");
  std::vector<int> numbers(narrow<size_t>(count));
  functions_->expect(functions_->architectures(numbers.data()), "nvrtcGetSupportedArchs");
  for (const int number : numbers) architectures_.push_back(narrow<uint32_t>(number));
  std::sort(architectures_.begin(), architectures_.end());
}

Nvrtc::~Nvrtc() {
  dlclose(library_);
}

std::unique_ptr<const Nvrtc> Nvrtc::open(const std::optional<std::string>& path,
                                         Diagnostics& diagnostics) {
  std::string reasons;
  for (const std::string& file : candidates(path)) {
    // It stays loaded: opening it again for the next compilation takes no time.
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library != nullptr) return adopt(library, file, diagnostics);
    const char* reason = dlerror();
    if (reasons.empty() && reason != nullptr) reasons = reason;
  }
  diagnostics.error(DiagCode::MissingLibrary, {.file = path.value_or(""), .position = {}},
                    "--target cuda needs NVRTC, which compiles CUDA kernels: " + reasons, kHint);
  return nullptr;
}

std::unique_ptr<const Nvrtc> Nvrtc::adopt(void* library, const std::string& file,
                                          Diagnostics& diagnostics) {
  auto functions = std::make_unique<Functions>();
  const std::string missing = functions->load(library);
  if (!missing.empty()) {
    dlclose(library);
    diagnostics.error(DiagCode::MissingLibrary, {.file = file, .position = {}},
                      "is no NVRTC, or one before CUDA 11.2: it has no function " + missing, kHint);
    return nullptr;
  }
  return std::unique_ptr<const Nvrtc>(new Nvrtc(library, std::move(functions)));
}

std::string Nvrtc::version() const {
  return std::to_string(major_) + "." + std::to_string(minor_);
}

Nvrtc::Output Nvrtc::compile(const File& source, const std::vector<File>& includes,
                             const std::vector<std::string>& options) const {
  std::vector<const char*> texts;
  std::vector<const char*> names;
  for (const File& file : includes) {
    texts.push_back(file.text->c_str());
    names.push_back(file.name.c_str());
  }
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());

  const Functions& api = *functions_;
  Functions::Program program = nullptr;
  api.expect(api.create(&program, source.text->c_str(), source.name.c_str(),
                        narrow<int>(includes.size()), texts.data(), names.data()),
             "nvrtcCreateProgram");
  const auto destroy = [&api](Functions::Program* used) { api.destroy(used); };
  const std::unique_ptr<Functions::Program, decltype(destroy)> owner(&program, destroy);

  const int result = api.compile(program, narrow<int>(words.size()), words.data());
  if (result == kOutOfMemory) throw std::bad_alloc();
  Output output{.good = result == 0,
                .log = without_zeros(take(api.log_size, api.log, program)),
                .ptx = {},
                .cubin = {}};
  if (!output.good) {
    // Any other result (a wrong option, an internal error) says nothing in the log.
    if (result != kCompilationFailed) {
      output.log += std::string("NVRTC ") + version() + ": " + api.error_string(result);
    }
    return output;
  }
  output.ptx = without_zeros(take(api.ptx_size, api.ptx, program));
  const std::string cubin = take(api.cubin_size, api.cubin, program);
  const auto* first = reinterpret_cast<const std::byte*>(cubin.data());
  output.cubin.assign(first, first + cubin.size());
  return output;
}

}  // namespace rlx
