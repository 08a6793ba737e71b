// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy and .npz files for tools and tests: read strictly, written plainly. Nothing is
// converted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace rlx::npy {

// Element types as NumPy has them. U16 and Raw16 carry bf16, U8 and Raw8 carry 8-bit floats, which
// NumPy lacks.
enum class Element : uint8_t {
  F32,
  F16,
  F64,
  I8,
  U8,
  I16,
  U16,
  I32,
  U32,
  I64,
  Bool,
  C64,
  Raw8,
  Raw16
};

struct Array {
  Element element = Element::F32;
  std::vector<uint64_t> dims;   // outermost first; empty: a scalar
  std::vector<std::byte> data;  // dense, row-major, little-endian, whatever the file's order was

  [[nodiscard]] uint64_t element_count() const;
};

struct NamedArray {
  std::string name;
  Array array;
};

// Asked about each array when its header was read and before its data are: what is not wanted costs
// no memory, however large a file says it is. An error refuses the file.
using Wanted = std::function<Status(std::string_view name, Element element,
                                    const std::vector<uint64_t>& dims)>;

uint32_t element_bytes(Element element);
// "f32", "u16"
std::string_view element_name(Element element);
// Whether the bytes of such an array are a tensor of this rlx_dtype: the same type, or a carrier of
// it.
bool carries(Element element, uint32_t dtype);
// The type that a tensor of this rlx_dtype is written as; none for block formats.
std::optional<Element> element_for(uint32_t dtype);

// The bytes of a .npy file: versions 1.0, 2.0 and 3.0, either byte order, C or Fortran order.
// Refused, with `name` and the cause in the message: object and structured types, types that no
// plan has, headers above 10,000 bytes, ranks above 8, and payloads that are not exactly as long as
// dtype and shape say.
Status parse(std::span<const std::byte> file, std::string_view name, Array& array);
// The same of a file; regular files only. `wanted` is asked about `name`.
Status read_npy(const std::string& path, std::string_view name, const Wanted& wanted, Array& array);
Status read_npy(const std::string& path, Array& array);

// A .npz file: a zip of .npy members, stored or deflated, with or without zip64. Names are without
// ".npy". Refused: encrypted or damaged members, other methods, names that occur twice, members
// that are no arrays. Of a member that is not `wanted` only the header is unpacked.
Status read_npz(const std::string& path, const Wanted& wanted, std::vector<NamedArray>& arrays);
Status read_npz(const std::string& path, std::vector<NamedArray>& arrays);
Status parse_npz(std::span<const std::byte> file, std::string_view name, const Wanted& wanted,
                 std::vector<NamedArray>& arrays);

// The .npy file (version 1.0) of an array.
std::vector<std::byte> serialize(const Array& array);
// Writes it as runtime/base/output_file.h says: no reader meets half a file.
Status write_npy(const std::string& path, const Array& array);

}  // namespace rlx::npy
