// SPDX-License-Identifier: Apache-2.0
// The .npz reader, on archives built here byte by byte.
#define ZLIB_CONST
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "runtime/include/rlx.h"
#include "tests/rlxrun/has_text.h"
#include "tests/support/catch.h"
#include "tools/npy/npy.h"

namespace {

using namespace rlx;
using npy::NamedArray;
using rlx::test::has_text;

std::string little(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

std::string npy_file(const std::string& payload) {
  const npy::Array array{
      .element = npy::Element::U8,
      .dims = {payload.size()},
      .data = {reinterpret_cast<const std::byte*>(payload.data()),
               reinterpret_cast<const std::byte*>(payload.data()) + payload.size()}};
  const std::vector<std::byte> file = npy::serialize(array);
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

// The header of a .npy file of bytes, without its data.
std::string header_of(uint64_t bytes) {
  const std::string file = npy_file("");
  std::string header = file;
  const std::string shape = "(" + std::to_string(bytes) + ",), }";
  header.replace(header.find("(0,), }"), shape.size(), shape);
  REQUIRE(header.size() == file.size());
  return header;
}

std::string deflated(const std::string& text) {
  std::string packed(text.size() + 100, '\0');
  z_stream stream = {};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  stream.next_in = reinterpret_cast<const Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

struct Member {
  std::string name;
  std::string content;
  bool deflate = false;
  bool zip64 = false;
  uint16_t flags = 0;
  uint64_t claimed_bytes = 0;  // of what it unpacks to; 0: the truth
};

std::string archive(const std::vector<Member>& members) {
  std::string file;
  std::string directory;
  for (const Member& member : members) {
    const std::string packed = member.deflate ? deflated(member.content) : member.content;
    const uint32_t crc =
        static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(member.content.data()),
                                    static_cast<uInt>(member.content.size())));
    const uint64_t size = member.claimed_bytes == 0 ? member.content.size() : member.claimed_bytes;
    const std::string extra =
        member.zip64 ? little(1, 2) + little(16, 2) + little(size, 8) + little(packed.size(), 8)
                     : "";
    const std::string sizes = member.zip64 ? little(UINT32_MAX, 4) + little(UINT32_MAX, 4)
                                           : little(packed.size(), 4) + little(size, 4);
    const std::string common = little(member.flags, 2) + little(member.deflate ? 8 : 0, 2) +
                               little(0, 4) + little(crc, 4) + sizes +
                               little(member.name.size(), 2) + little(extra.size(), 2);
    directory += little(0x02014b50, 4) + little(20, 2) + little(20, 2) + common + little(0, 2) +
                 little(0, 2) + little(0, 2) + little(0, 4) + little(file.size(), 4) + member.name +
                 extra;
    file += little(0x04034b50, 4) + little(20, 2) + common + member.name + extra + packed;
  }
  const size_t offset = file.size();
  return file + directory + little(0x06054b50, 4) + little(0, 4) + little(members.size(), 2) +
         little(members.size(), 2) + little(directory.size(), 4) + little(offset, 4) + little(0, 2);
}

Status parse(const std::string& file, std::vector<NamedArray>& arrays) {
  return npy::parse_npz(std::as_bytes(std::span(file)), "x.npz", {}, arrays);
}

std::string refusal(const std::string& file) {
  std::vector<NamedArray> arrays;
  const Status status = parse(file, arrays);
  REQUIRE_FALSE(status.ok());
  CHECK(arrays.empty());
  CHECK(status.message().rfind("x.npz: ", 0) == 0);
  return status.message();
}

}  // namespace

TEST_CASE("npz_reads_stored_deflated_and_zip64_members") {
  const std::string long_text(5000, 'z');
  std::vector<NamedArray> arrays;
  const Status status =
      parse(archive({{.name = "a.npy", .content = npy_file("abc")},
                     {.name = "b.npy", .content = npy_file(long_text), .deflate = true},
                     {.name = "c.npy", .content = npy_file("xy"), .deflate = true, .zip64 = true}}),
            arrays);
  INFO(status.message());
  REQUIRE(status.ok());
  REQUIRE(arrays.size() == 3);
  CHECK(arrays[0].name == "a");
  CHECK(arrays[1].array.data.size() == 5000);
  CHECK(arrays[2].name == "c");
  CHECK(arrays[2].array.data[1] == std::byte{'y'});
}

TEST_CASE("npz_refuses_damage_by_member_name") {
  std::string wrong_crc = archive({{.name = "a.npy", .content = npy_file("abc")}});
  wrong_crc[wrong_crc.find("abc")] = 'x';
  CHECK(has_text(refusal(wrong_crc), "member \"a.npy\": its checksum is wrong"));
  CHECK(has_text(refusal(archive({{.name = "a.npy", .content = npy_file("abc"), .flags = 1}})),
                 "encrypted"));
  CHECK(has_text(refusal(archive({{.name = "a.txt", .content = "hello"}})),
                 "\"a.txt\" is no .npy array"));
  CHECK(has_text(refusal(archive({{.name = "a.npy", .content = "hello"}})),
                 "member \"a.npy\": this is no .npy file"));
  CHECK(has_text(refusal(archive({{.name = "a.npy", .content = npy_file("1")},
                                  {.name = "a.npy", .content = npy_file("2")}})),
                 "two members are named \"a\""));
}

TEST_CASE("npz_refuses_every_truncation") {
  const std::string whole =
      archive({{.name = "a.npy", .content = npy_file("abc")},
               {.name = "b.npy", .content = npy_file("defghi"), .deflate = true}});
  for (size_t length = 0; length < whole.size(); ++length) {
    INFO(length);
    refusal(whole.substr(0, length));
  }
}

TEST_CASE("npz_survives_every_flipped_byte") {
  const std::string whole =
      archive({{.name = "a.npy", .content = npy_file("abc"), .deflate = true, .zip64 = true}});
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      std::vector<NamedArray> arrays;
      // Whatever the verdict, what is accepted is whole.
      if (parse(changed, arrays).ok() && !arrays.empty()) CHECK(arrays[0].array.data.size() == 3);
    }
  }
}

TEST_CASE("npz_unpacks_what_is_wanted_and_no_more") {
  // 64 MiB of zeros in 64 KiB: a header that a plan does not want is all that is unpacked of them.
  const uint64_t many = uint64_t{64} << 20;
  const std::string bomb = archive(
      {{.name = "x.npy", .content = header_of(many) + std::string(many, '\0'), .deflate = true}});
  REQUIRE(bomb.size() < 100000);
  const npy::Wanted four = [](std::string_view name, npy::Element element,
                              const std::vector<uint64_t>& dims) -> Status {
    if (name == "x" && element == npy::Element::U8 && dims == std::vector<uint64_t>{4}) return {};
    return {RLX_INVALID_ARGUMENT, "not wanted: " + std::to_string(dims.at(0))};
  };
  const auto verdict = [&](const std::string& file) {
    std::vector<NamedArray> arrays;
    const Status status = npy::parse_npz(std::as_bytes(std::span(file)), "x.npz", four, arrays);
    CHECK(arrays.empty() != status.ok());
    return status.message();
  };
  CHECK(verdict(bomb) == "not wanted: 67108864");
  CHECK(
      verdict(archive({{.name = "x.npy", .content = npy_file("abcd"), .deflate = true}})).empty());
  // A header that says what is wanted over data of another size.
  const std::string hidden = header_of(4) + std::string(many, '\0');
  CHECK(has_text(verdict(archive({{.name = "x.npy", .content = hidden, .deflate = true}})),
                 "dtype and shape say 4 bytes of data, the file holds 67108864"));
  const uint64_t claimed = header_of(4).size() + 4;
  CHECK(has_text(
      verdict(archive(
          {{.name = "x.npy", .content = hidden, .deflate = true, .claimed_bytes = claimed}})),
      "it unpacks to more than its size says"));
  CHECK(has_text(verdict(archive({{.name = "x.npy",
                                   .content = header_of(4) + "ab",
                                   .deflate = true,
                                   .claimed_bytes = claimed}})),
                 "its compressed data are damaged"));
}

TEST_CASE("npz_believes_no_claim_that_deflate_cannot_keep") {
  const uint64_t huge = uint64_t{1} << 40;
  const std::string packed = archive({{.name = "x.npy",
                                       .content = header_of(huge),
                                       .deflate = true,
                                       .zip64 = true,
                                       .claimed_bytes = header_of(huge).size() + huge}});
  CHECK(has_text(refusal(packed), "its claimed size cannot be right"));
}

TEST_CASE("npz_and_npy_read_regular_files_only") {
  std::string folder = "/tmp/rlx_npz_XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::string fifo = folder + "/fifo.npz";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  std::vector<NamedArray> arrays;
  npy::Array array;
  for (const std::string& path : {fifo, std::string("/dev/zero"), folder}) {
    for (const Status& status : {npy::read_npz(path, arrays), npy::read_npy(path, array)}) {
      INFO(status.message());
      CHECK(status.code() == RLX_IO_ERROR);
      CHECK(has_text(status.message(), path));
    }
  }
  // A sparse file of a terabyte: only its end is looked at, only its head is read.
  const std::string sparse = folder + "/sparse.npz";
  std::ofstream(sparse) << "PK";
  if (::truncate(sparse.c_str(), off_t{1} << 40) == 0) {
    CHECK(has_text(npy::read_npz(sparse, arrays).message(), "end record is missing"));
    CHECK(has_text(npy::read_npy(sparse, array).message(), "this is no .npy file"));
  }
  REQUIRE(std::system(("rm -r " + folder).c_str()) == 0);
}
