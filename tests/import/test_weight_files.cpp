// SPDX-License-Identifier: Apache-2.0
// Weight files: what is read, what is refused, and that references stay in the model's folder.
#include <sys/stat.h>

#include "compiler/import/model_files.h"
#include "compiler/import/npy.h"
#include "compiler/import/safetensors.h"
#include "tests/import/import_support.h"

namespace rlx::test {
namespace {

std::string little_endian(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 255);
  return text;
}

std::string npy(const std::string& header, const std::string& payload, int major = 1) {
  return "\x93NUMPY" + std::string(1, static_cast<char>(major)) + std::string(1, '\0') +
         little_endian(header.size(), major == 1 ? 2 : 4) + header + payload;
}
std::string npy_header(const std::string& descr, const std::string& shape,
                       const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape +
         ", }   \n";
}
std::string safetensors(const std::string& header, const std::string& data) {
  return little_endian(header.size(), 8) + header + data;
}

// A graph with one param "w" whose data is `data`.
std::string param_graph(const std::string& dtype, const std::string& shape,
                        const std::string& data) {
  return relu_graph(R"("params": [{"name": "w", "dtype": ")" + dtype + R"(", "shape": )" + shape +
                    R"(, "data": )" + data + "}], ");
}
const std::string kNpyData = R"({"npy": "w.npy"})";
const std::string kSafetensorsData = R"({"safetensors": "w.safetensors"})";

Diagnostics npy_errors(const std::string& bytes, const std::string& dtype = "f32",
                       const std::string& shape = "[3]") {
  const TemporaryFolder folder;
  folder.write("w.npy", bytes);
  return bind_bad(param_graph(dtype, shape, kNpyData), {}, folder.path());
}
Diagnostics safetensors_errors(const std::string& bytes, const std::string& dtype = "f32",
                               const std::string& shape = "[3]") {
  const TemporaryFolder folder;
  folder.write("w.safetensors", bytes);
  return bind_bad(param_graph(dtype, shape, kSafetensorsData), {}, folder.path());
}

const std::vector<float> kThree = {1.5f, -2.0f, 3.25f};

TEST_CASE("npy versions 1, 2 and 3 are read") {
  const TemporaryFolder folder;
  for (const int major : {1, 2, 3}) {
    folder.write("w.npy", npy(npy_header("<f4", "(3,)"), raw_bytes(kThree), major));
    CHECK(values_of<float>(bind_good(param_graph("f32", "[3]", kNpyData), {}, folder.path()),
                           "w") == kThree);
  }
}

TEST_CASE("npy keys may stand in any order") {
  const TemporaryFolder folder;
  folder.write("w.npy",
               npy(R"({"shape":(3,),"fortran_order":False,"descr":"<f4"})", raw_bytes(kThree)));
  CHECK(values_of<float>(bind_good(param_graph("f32", "[3]", kNpyData), {}, folder.path()), "w") ==
        kThree);
}

TEST_CASE("npy in Fortran order becomes row-major") {
  const TemporaryFolder folder;
  // numpy.asfortranarray(numpy.arange(24, dtype='<i4').reshape(2, 3, 4))
  std::vector<int32_t> stored;
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i) stored.push_back(i * 12 + j * 4 + k);
    }
  }
  folder.write("w.npy", npy(npy_header("<i4", "(2, 3, 4)", "True"), raw_bytes(stored)));
  const auto values = values_of<int32_t>(
      bind_good(param_graph("i32", "[2, 3, 4]", kNpyData), {}, folder.path()), "w");
  REQUIRE(values.size() == 24);
  for (int i = 0; i < 24; ++i) CHECK(values[static_cast<size_t>(i)] == i);
}

TEST_CASE("npy in big-endian order is converted") {
  const TemporaryFolder folder;
  folder.write("w.npy", npy(npy_header(">i2", "(2,)"), std::string("\x01\x02\xff\xfe", 4)));
  CHECK(values_of<int16_t>(bind_good(param_graph("i16", "[2]", kNpyData), {}, folder.path()),
                           "w") == std::vector<int16_t>{0x0102, -2});
}

TEST_CASE("npy rank 0, empty and bool arrays are read") {
  const TemporaryFolder folder;
  folder.write("w.npy", npy(npy_header("<f8", "()"), raw_bytes<double>({0.1})));
  CHECK(values_of<double>(bind_good(param_graph("f64", "[]", kNpyData), {}, folder.path()), "w") ==
        std::vector<double>{0.1});
  folder.write("w.npy", npy(npy_header("<f4", "(0, 3)", "True"), ""));
  CHECK(data_of(bind_good(param_graph("f32", "[0, 3]", kNpyData), {}, folder.path()), "w").empty());
  folder.write("w.npy", npy(npy_header("|b1", "(3,)"), std::string("\x00\x05\x01", 3)));
  CHECK(values_of<uint8_t>(bind_good(param_graph("bool", "[3]", kNpyData), {}, folder.path()),
                           "w") == std::vector<uint8_t>{0, 1, 1});
}

TEST_CASE("hostile npy files are refused with the reason") {
  const std::string payload = raw_bytes(kThree);
  check_only_error(npy_errors("PK\x03\x04"), DiagCode::FileFormat,
                   "data of param \"w\": file \"w.npy\" is not a .npy file");
  check_only_error(npy_errors(""), DiagCode::FileFormat, "is not a .npy file");
  check_only_error(npy_errors(npy(npy_header("|O", "(3,)"), payload)), DiagCode::FileFormat,
                   "holds Python objects (dtype \"|O\")");
  check_only_error(
      npy_errors(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", payload)),
      DiagCode::FileFormat, "has a structured dtype");
  check_only_error(npy_errors(npy(npy_header("<f4", "(3,)"), payload, 4)), DiagCode::FileFormat,
                   "has .npy version 4.0");
  check_only_error(npy_errors(npy(npy_header("<f4", "(3,)"), payload.substr(1))),
                   DiagCode::FileSize,
                   "holds 11 bytes after its header, its own shape f32[3] wants 12");
  check_only_error(npy_errors(npy(npy_header("<f4", "(3,)"), payload + "x")), DiagCode::FileSize,
                   "holds 13 bytes");
  check_only_error(npy_errors(npy(npy_header("<f4", "(3,)"), payload).substr(0, 30)),
                   DiagCode::FileSize, "ends inside its header");
  check_only_error(npy_errors(npy(npy_header("<f4", "(3,)") + std::string(10'000, ' '), payload)),
                   DiagCode::FileFormat, "at most 10000 are read");
  check_only_error(npy_errors("\x93NUMPY\x02" + std::string(1, '\0') + "\xff\xff\xff\xff{}"),
                   DiagCode::FileFormat, "header of 4294967295 bytes");
  check_only_error(npy_errors(npy(npy_header("<f4", "(1099511627775, 1099511627775, 0)"), "")),
                   DiagCode::FileFormat, "more than 2^48 bytes");
  check_only_error(npy_errors(npy(npy_header("<f4", "(18446744073709551617,)"), "")),
                   DiagCode::FileFormat, "is not the dict");
  check_only_error(npy_errors(npy(npy_header("<f4", "(99999999999999,)"), "")),
                   DiagCode::FileFormat, "wanted less than 2^40");
  check_only_error(npy_errors(npy(npy_header("<f4", "(3)"), payload)), DiagCode::FileFormat,
                   "is not the dict");
  check_only_error(npy_errors(npy(npy_header("<f4", "(-3,)"), payload)), DiagCode::FileFormat,
                   "is not the dict");
  check_only_error(npy_errors(npy(npy_header("<f4", "(1,1,1,1,1,1,1,1,3)"), payload)),
                   DiagCode::FileFormat, "has rank 9");
  check_only_error(npy_errors(npy(npy_header("<f4", "__import__('os')"), payload)),
                   DiagCode::FileFormat, "is not the dict");
  check_only_error(
      npy_errors(
          npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", payload)),
      DiagCode::FileFormat, "unknown or repeated key \"descr\"");
  check_only_error(npy_errors(npy("{'descr': '<f4', 'shape': (3,)}", payload)),
                   DiagCode::FileFormat, "lacks one of the keys");
  check_only_error(npy_errors(npy(npy_header("<f4", "(3,)") + "x", payload)), DiagCode::FileFormat,
                   "has text after its dict");
  check_only_error(npy_errors(npy(npy_header("<u8", "(3,)"), payload)), DiagCode::FileFormat,
                   "has dtype \"<u8\", wanted");
  check_only_error(npy_errors(npy(npy_header("|f4", "(3,)"), payload)), DiagCode::FileFormat,
                   "has dtype \"|f4\"");
}

TEST_CASE("an npy of another type or shape is no silent cast") {
  check_only_error(npy_errors(npy(npy_header("<f4", "(3,)"), raw_bytes(kThree)), "i32"),
                   DiagCode::BadDtype, "file \"w.npy\" holds f32[3], the graph wants i32[3]");
  check_only_error(npy_errors(npy(npy_header("<f4", "(3,)"), raw_bytes(kThree)), "f32", "[1, 3]"),
                   DiagCode::BadShape, "file \"w.npy\" holds f32[3], the graph wants f32[1, 3]");
}

TEST_CASE("an npy header truncated at any byte is refused") {
  const std::string good = npy(npy_header("<f4", "(3,)"), raw_bytes(kThree));
  for (size_t length = 0; length < good.size(); ++length) {
    const GraphBytes bytes = bytes_of(good.substr(0, length));
    CHECK(std::holds_alternative<ParseFault>(parse_npy(bytes.bytes)));
  }
}

const std::string kGoodHeader =
    R"({"__metadata__":{"format":"pt"},"v":{"dtype":"BF16","shape":[2],"data_offsets":[12,16]},)"
    R"("w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}  )";

TEST_CASE("safetensors are mapped and never copied") {
  const TemporaryFolder folder;
  folder.write("w.safetensors",
               safetensors(kGoodHeader, raw_bytes(kThree) + raw_bytes<uint16_t>({0x3f80, 0xbf80})));
  const Module module = bind_good(
      relu_graph(
          R"("params": [{"name": "w", "dtype": "f32", "shape": [3], "data": {"safetensors": "w.safetensors"}},
                {"name": "b", "dtype": "bf16", "shape": [2], "data": {"safetensors": "w.safetensors", "tensor": "v"}}], )"),
      {}, folder.path());
  CHECK(values_of<float>(module, "w") == kThree);
  CHECK(values_of<uint16_t>(module, "b") == std::vector<uint16_t>{0x3f80, 0xbf80});
  CHECK(data_of(module, "b").data() == data_of(module, "w").data() + 12);
}

TEST_CASE("hostile safetensors are refused with the reason") {
  const std::string data = raw_bytes(kThree);
  const auto with = [&](const std::string& header) {
    return safetensors_errors(safetensors(header, data));
  };
  check_only_error(safetensors_errors("abc"), DiagCode::FileSize,
                   "file \"w.safetensors\" ends before its header");
  check_only_error(safetensors_errors(little_endian(1000, 8) + "{}"), DiagCode::FileFormat,
                   "wants a header of 1000 bytes");
  check_only_error(safetensors_errors(little_endian(UINT64_MAX, 8) + "{}"), DiagCode::FileFormat,
                   "wants a header of 18446744073709551615 bytes");
  check_only_error(with("{"), DiagCode::FileFormat, "has a header with malformed JSON");
  check_only_error(with("[]"), DiagCode::FileFormat, "no JSON object");
  check_only_error(with(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,13]}})"),
                   DiagCode::FileSize, "at bytes 0 to 13, the file holds 12");
  check_only_error(with(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[12,0]}})"),
                   DiagCode::FileSize, "at bytes 12 to 0");
  check_only_error(with(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,12]}})"),
                   DiagCode::FileSize, "of 12 bytes, its shape and dtype want 8");
  check_only_error(
      with(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,12]}})"),
      DiagCode::FileSize, "want more than 2^48");
  check_only_error(with(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
                   DiagCode::FileSize, "holds 12 bytes of data, its tensors take 8");
  check_only_error(with(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})"),
                   DiagCode::FileFormat, "after a hole that begins at 0");
  check_only_error(
      with(
          R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},"v":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
      DiagCode::FileFormat, "inside another tensor that ends at 12");
  check_only_error(with(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,12]}})"),
                   DiagCode::FileFormat, "whose header is not");
  check_only_error(with(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12],"x":1}})"),
                   DiagCode::FileFormat, "whose header is not");
  check_only_error(with(R"({"w":7})"), DiagCode::FileFormat, "whose header is not");
  check_only_error(with(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},"w":{}})"),
                   DiagCode::FileFormat, "appears twice");
  check_only_error(with(R"({"v":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})"),
                   DiagCode::FileFormat, "has no tensor \"w\"");
  check_only_error(with(R"({"w":{"dtype":"U32","shape":[3],"data_offsets":[0,12]}})"),
                   DiagCode::BadDtype, "is \"U32\"[3], the graph wants f32[3]");
  check_only_error(with(R"({"w":{"dtype":"F32","shape":[3,1],"data_offsets":[0,12]}})"),
                   DiagCode::BadShape, "is \"F32\"[3, 1], the graph wants f32[3]");
  check_only_error(with(R"({"w":{"dtype":"F4","shape":[24],"data_offsets":[0,12]}})"),
                   DiagCode::BadDtype, "is \"F4\"[24]");
}

TEST_CASE("raw files are read from their offset") {
  const TemporaryFolder folder;
  folder.write("w.bin", "abcd" + raw_bytes(kThree) + "tail");
  CHECK(values_of<float>(bind_good(param_graph("f32", "[3]", R"({"raw": "w.bin", "offset": 4})"),
                                   {}, folder.path()),
                         "w") == kThree);
  check_only_error(
      bind_bad(param_graph("f32", "[3]", R"({"raw": "w.bin", "offset": 9})"), {}, folder.path()),
      DiagCode::FileSize, "raw file \"w.bin\" has 20 bytes, f32[3] wants 12 from byte 9");
  check_only_error(
      bind_bad(param_graph("f32", "[3]", R"({"raw": "w.bin", "offset": 18446744073709551615})"), {},
               folder.path()),
      DiagCode::FileSize, "wants 12 from byte 18446744073709551615");
  check_only_error(bind_bad(param_graph("f32", "[4]", R"({"raw": "w.bin"})"), {}, folder.path()),
                   DiagCode::FileSize, "raw file \"w.bin\" has 20 bytes, the tensor takes 16");
}

TEST_CASE("T5 inline data of the wrong size is refused") {
  check_only_error(bind_bad(param_graph("f32", "[3]", R"({"values": [1, 2]})")), DiagCode::FileSize,
                   "model.json:/params/0: error: data of param \"w\": the inline data has 8 bytes, "
                   "f32[3] wants 12");
}

TEST_CASE("generated data must be held by the dtype") {
  check_only_error(bind_bad(param_graph("u8", "[3]", R"({"splat": 256})")), DiagCode::BadDtype,
                   "is no value of u8");
  check_only_error(bind_bad(param_graph("i64", "[3]", R"({"splat": 0.5})")), DiagCode::BadDtype,
                   "is no value of i64");
  check_only_error(bind_bad(param_graph("i64", "[3]", R"({"splat": 9.3e18})")), DiagCode::BadDtype,
                   "is no value of i64");
  check_only_error(bind_bad(param_graph("i32", "[3]", R"({"splat": "nan"})")), DiagCode::BadDtype,
                   "is no value of i32");
  check_only_error(bind_bad(param_graph("f16", "[3]", R"({"splat": 1e6})")), DiagCode::BadDtype,
                   "is no value of f16");
  check_only_error(
      bind_bad(param_graph("i32", "[3]", R"({"random": {"distribution": "uniform"}})")),
      DiagCode::BadDtype, "random data is for f32");
  check_only_error(
      bind_bad(param_graph("f32", "[3]",
                           R"({"random": {"distribution": "uniform", "low": 2, "high": 1}})")),
      DiagCode::BadField, "low <= high");
  CHECK(bind_good(param_graph("bool", "[3]", R"({"splat": true})")).weights.size() == 1);
}

// The error of reading param "w" from the raw file `reference`.
Diagnostics reference_errors(const TemporaryFolder& folder, const std::string& reference) {
  return bind_bad(param_graph("f32", "[3]", R"({"raw": ")" + reference + R"("})"), {},
                  folder.path("model"));
}

TEST_CASE("references never leave the model's folder") {
  const TemporaryFolder folder;
  folder.write("secret.bin", raw_bytes(kThree));
  folder.write("model/w.bin", raw_bytes(kThree));
  folder.write("model/sub/w.bin", raw_bytes(kThree));
  folder.write("outside/w.bin", raw_bytes(kThree));
  namespace fs = std::filesystem;
  fs::create_symlink("../secret.bin", folder.path("model/link.bin"));
  fs::create_symlink("w.bin", folder.path("model/inner.bin"));
  fs::create_directory_symlink("../outside", folder.path("model/linked"));
  fs::create_hard_link(folder.path("secret.bin"), folder.path("model/hard.bin"));
  REQUIRE(::mkfifo(folder.path("model/pipe").c_str(), 0600) == 0);

  CHECK(bind_good(param_graph("f32", "[3]", R"({"raw": "sub/w.bin"})"), {}, folder.path("model"))
            .weights.size() == 1);
  check_only_error(reference_errors(folder, "../secret.bin"), DiagCode::FileOutside,
                   "file \"../secret.bin\" goes through \"..\"");
  check_only_error(reference_errors(folder, "sub/../w.bin"), DiagCode::FileOutside,
                   "goes through \"..\"");
  check_only_error(reference_errors(folder, folder.path("model/w.bin")), DiagCode::FileOutside,
                   "is an absolute path");
  check_only_error(reference_errors(folder, "link.bin"), DiagCode::FileOutside, "a symbolic link");
  check_only_error(reference_errors(folder, "inner.bin"), DiagCode::FileOutside, "a symbolic link");
  check_only_error(reference_errors(folder, "linked/w.bin"), DiagCode::FileOutside,
                   "a symbolic link");
  check_only_error(reference_errors(folder, "hard.bin"), DiagCode::FileOutside,
                   "has 2 hard links, wanted 1");
  check_only_error(reference_errors(folder, "sub"), DiagCode::FileOutside, "is not a regular file");
  check_only_error(reference_errors(folder, "pipe"), DiagCode::FileOutside,
                   "is not a regular file");
  check_only_error(reference_errors(folder, "none.bin"), DiagCode::FileMissing,
                   "data of param \"w\": file \"none.bin\" does not exist");
  check_only_error(reference_errors(folder, "w.bin/x"), DiagCode::FileMissing, "does not exist");
}

TEST_CASE("a pointer of Git LFS in the place of a file says what to do") {
  const TemporaryFolder folder;
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:0123456789abcdef\nsize 12\n";
  folder.write("model/w.bin", pointer);
  check_only_error(reference_errors(folder, "w.bin"), DiagCode::FileFormat, "`git lfs pull`");
  for (const char* name : {"m.onnx", "m.gguf", "m.rlxg", "config.json"}) {
    folder.write(name, pointer);
    Diagnostics diagnostics;
    CHECK_FALSE(load_module(folder.path(name), {}, diagnostics).has_value());
    check_only_error(diagnostics, DiagCode::FileFormat, "is a pointer of Git LFS");
  }
}

TEST_CASE("the walk without openat2 holds the same rules") {
  const TemporaryFolder folder;
  folder.write("secret.bin", raw_bytes(kThree));
  folder.write("model/sub/w.bin", raw_bytes(kThree));
  std::filesystem::create_symlink("../secret.bin", folder.path("model/link.bin"));
  std::filesystem::create_directory_symlink("sub", folder.path("model/linked"));
  const ModelFolder model(folder.path("model"), {.use_openat2 = false});
  const auto code_of = [&](const std::string& path) {
    const FileResult result = model.map(path);
    return std::holds_alternative<FileFault>(result)
               ? std::optional(std::get<FileFault>(result).code)
               : std::nullopt;
  };
  CHECK_FALSE(code_of("sub/w.bin").has_value());
  CHECK_FALSE(code_of("./sub//w.bin").has_value());
  CHECK(code_of("link.bin") == DiagCode::FileOutside);
  CHECK(code_of("linked/w.bin") == DiagCode::FileOutside);
  CHECK(code_of("sub") == DiagCode::FileOutside);
  CHECK(code_of("none/w.bin") == DiagCode::FileMissing);
  CHECK(code_of("sub/w.bin/x") == DiagCode::FileMissing);
}

TEST_CASE("a safetensors file of 60,000 tensors is opened in under a second") {
  std::string header = "{";
  for (int i = 0; i < 60'000; ++i) {
    header += (i > 0 ? "," : "") + std::string("\"t") + std::to_string(i) +
              R"(":{"dtype":"F32","shape":[1],"data_offsets":[)" + std::to_string(i * 4) + "," +
              std::to_string(i * 4 + 4) + "]}";
  }
  const GraphBytes bytes = bytes_of(safetensors(header + "}", std::string(240'000, '\0')));
  const auto view = parse_safetensors(bytes.bytes);
  REQUIRE(std::holds_alternative<SafetensorsView>(view));
  CHECK(std::get<SafetensorsView>(view).size() == 60'000);
}

}  // namespace
}  // namespace rlx::test
