// SPDX-License-Identifier: Apache-2.0
// The .npy reader: right arrays for what NumPy writes, a named refusal for everything else.
#include <cstring>
#include <string>

#include "runtime/include/rlx.h"
#include "tests/rlxrun/has_text.h"
#include "tests/support/catch.h"
#include "tools/npy/npy.h"

namespace {

using namespace rlx;
using npy::Array;
using npy::Element;
using rlx::test::has_text;

// A .npy file from its header's text and payload, without padding.
std::vector<std::byte> make_file(const std::string& header, const std::string& payload,
                                 char major = 1) {
  std::string text = "\x93NUMPY";
  text += major;
  text += '\0';
  text += static_cast<char>(header.size() & 0xff);
  text += static_cast<char>(header.size() >> 8);
  if (major > 1) text += std::string(2, '\0');
  text += header + payload;
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

std::string header(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }\n";
}

std::string refusal(const std::vector<std::byte>& file) {
  Array array;
  const Status status = npy::parse(file, "x.npy", array);
  REQUIRE_FALSE(status.ok());
  CHECK(status.code() == RLX_INVALID_ARGUMENT);
  CHECK(status.message().rfind("x.npy: ", 0) == 0);
  return status.message();
}

Array accepted(const std::vector<std::byte>& file) {
  Array array;
  const Status status = npy::parse(file, "x.npy", array);
  INFO(status.message());
  REQUIRE(status.ok());
  return array;
}

std::string bytes_of(const Array& array) {
  return {reinterpret_cast<const char*>(array.data.data()), array.data.size()};
}

}  // namespace

TEST_CASE("npy_reads_every_element_type") {
  struct Row {
    const char* descr;
    Element element;
    uint32_t size_bytes;
    uint32_t dtype;
  };
  const Row rows[] = {{"<f4", Element::F32, 4, RLX_F32},   {"<f2", Element::F16, 2, RLX_F16},
                      {"<f8", Element::F64, 8, RLX_F64},   {"|i1", Element::I8, 1, RLX_I8},
                      {"|u1", Element::U8, 1, RLX_U8},     {"<i2", Element::I16, 2, RLX_I16},
                      {"<u2", Element::U16, 2, RLX_BF16},  {"<i4", Element::I32, 4, RLX_I32},
                      {"<u4", Element::U32, 4, RLX_U32},   {"<i8", Element::I64, 8, RLX_I64},
                      {"|b1", Element::Bool, 1, RLX_BOOL}, {"<c8", Element::C64, 8, RLX_C64},
                      {"|V2", Element::Raw16, 2, RLX_BF16}};
  for (const Row& row : rows) {
    INFO(row.descr);
    const std::string payload(row.size_bytes * 3, '\x11');
    const Array array = accepted(make_file(header(row.descr, "(3,)"), payload));
    CHECK(array.element == row.element);
    CHECK(array.dims == std::vector<uint64_t>{3});
    CHECK(bytes_of(array) == payload);
    CHECK(npy::carries(array.element, row.dtype));
  }
}

TEST_CASE("npy_reads_versions_1_2_and_3") {
  for (const char major : {1, 2, 3}) {
    CHECK(bytes_of(accepted(make_file(header("|u1", "(2,)"), "ab", major))) == "ab");
  }
  CHECK(has_text(refusal(make_file(header("|u1", "(2,)"), "ab", 4)), "version 4.0 is unknown"));
}

TEST_CASE("npy_turns_fortran_order_into_row_major") {
  // [[0 1 2], [3 4 5]] column by column.
  CHECK(bytes_of(
            accepted(make_file(header("|u1", "(2, 3)", true), std::string("\0\3\1\4\2\5", 6)))) ==
        std::string("\0\1\2\3\4\5", 6));
  // Three axes: file index = i + 2 * j + 4 * k.
  CHECK(bytes_of(accepted(make_file(header("|u1", "(2, 2, 2)", true), "abcdefgh"))) == "aecgbfdh");
}

TEST_CASE("npy_swaps_big_endian_elements") {
  CHECK(bytes_of(accepted(make_file(header(">i4", "(1,)"), std::string("\0\0\1\2", 4)))) ==
        std::string("\2\1\0\0", 4));
  CHECK(bytes_of(accepted(make_file(header(">c8", "(1,)"), "abcdefgh"))) == "dcbahgfe");
}

TEST_CASE("npy_reads_scalars_and_empty_arrays") {
  CHECK(accepted(make_file(header("<f4", "()"), "abcd")).dims.empty());
  const Array empty = accepted(make_file(header("<f4", "(0, 5)"), ""));
  CHECK(empty.dims == std::vector<uint64_t>{0, 5});
  CHECK(empty.data.empty());
}

TEST_CASE("npy_refuses_what_it_cannot_hold_by_name") {
  CHECK(has_text(refusal(make_file(header("|O", "(2,)"), "abcdefgh")), "Python objects"));
  CHECK(has_text(
      refusal(make_file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
                        "abcdefgh")),
      "structured"));
  CHECK(
      has_text(refusal(make_file(header("<u8", "(1,)"), "abcdefgh")), "'<u8' has no counterpart"));
  CHECK(
      has_text(refusal(make_file(header("<U4", "(1,)"), "abcdefgh")), "'<U4' has no counterpart"));
  CHECK(has_text(refusal(make_file(header("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "abcd")),
                 "'shape'"));
}

TEST_CASE("npy_refuses_payloads_of_another_length") {
  CHECK(has_text(refusal(make_file(header("<f4", "(2,)"), "abcdefg")),
                 "say 8 bytes of data, the file holds 7"));
  CHECK(has_text(refusal(make_file(header("<f4", "(2,)"), "abcdefghi")), "the file holds 9"));
  CHECK(has_text(refusal(make_file(header("<f4", "(1099511627775, 1099511627775)"), "")),
                 "larger than any tensor"));
}

TEST_CASE("npy_refuses_every_truncation") {
  const std::vector<std::byte> whole = make_file(header("<f4", "(2, 2)"), std::string(16, 'x'));
  for (size_t length = 0; length < whole.size(); ++length) {
    INFO(length);
    refusal({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length)});
  }
}

TEST_CASE("npy_refuses_malformed_headers") {
  const char* bad[] = {"",
                       "{",
                       "{}",
                       "{'descr': '<f4', 'fortran_order': False}",
                       "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
                       "{'descr': '<f4', 'fortran_order': Maybe, 'shape': ()}",
                       "{'descr': '<f4', 'fortran_order': False, 'shape': (4)}",
                       "{'descr': '<f4', 'fortran_order': False, 'shape': (-4,)}",
                       "{'descr': '<f4', 'fortran_order': False, 'shape': (4 4)}",
                       "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
                       "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}",
                       "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x"};
  for (const char* text : bad) {
    INFO(text);
    refusal(make_file(text, "abcd"));
  }
  CHECK(has_text(refusal(make_file(std::string(10001, ' '), "")), "at most 10000"));
}

TEST_CASE("npy_reads_what_it_writes") {
  const std::vector<std::vector<uint64_t>> shapes = {{}, {1}, {7}, {2, 3}, {1, 2, 3, 4}, {0, 3}};
  for (const std::vector<uint64_t>& dims : shapes) {
    uint64_t count = 1;
    for (const uint64_t dim : dims) count *= dim;
    Array array{.element = Element::I32, .dims = dims, .data = {}};
    for (uint64_t i = 0; i < count * 4; ++i) array.data.push_back(static_cast<std::byte>(i * 37));
    const std::vector<std::byte> file = npy::serialize(array);
    CHECK((file.size() - array.data.size()) % 64 == 0);
    const Array again = accepted(file);
    CHECK(again.element == array.element);
    CHECK(again.dims == array.dims);
    CHECK(again.data == array.data);
  }
}

TEST_CASE("npy_names_the_file_that_is_not_there") {
  Array array;
  const Status status = npy::read_npy("no/such/file.npy", array);
  CHECK(status.code() == RLX_IO_ERROR);
  CHECK(has_text(status.message(), "no/such/file.npy\": No such file"));
}
