// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/gguf/tensor_types.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace rlx::gguf {
namespace {

// Those of rlx's own types that GGUF stores have the same bytes there.
struct Type {
  uint32_t number;
  std::string_view name;  // GGML's; of rlx's types the one that dtype.def has
};

constexpr std::array<Type, 39> kTypes = {
    {{0, "f32"},       {1, "f16"},       {2, "q4_0"},   {3, "q4_1"},       {6, "q5_0"},
     {7, "q5_1"},      {8, "q8_0"},      {9, "q8_1"},   {10, "q2_k"},      {11, "q3_k"},
     {12, "q4_k"},     {13, "q5_k"},     {14, "q6_k"},  {15, "q8_k"},      {16, "iq2_xxs"},
     {17, "iq2_xs"},   {18, "iq3_xxs"},  {19, "iq1_s"}, {20, "iq4_nl"},    {21, "iq3_s"},
     {22, "iq2_s"},    {23, "iq4_xs"},   {24, "i8"},    {25, "i16"},       {26, "i32"},
     {27, "i64"},      {28, "f64"},      {29, "iq1_m"}, {30, "bf16"},      {31, "q4_0_4_4"},
     {32, "q4_0_4_8"}, {33, "q4_0_8_8"}, {34, "tq1_0"}, {35, "tq2_0"},     {39, "mxfp4"},
     {40, "nvfp4"},    {41, "q1_0"},     {42, "q2_0"},  {36, "iq4_nl_4_4"}}};

const Type* find_type(uint32_t number) {
  const auto found = std::ranges::find(kTypes, number, &Type::number);
  return found == kTypes.end() ? nullptr : &*found;
}

}  // namespace

std::optional<DType> find_dtype(uint32_t type) {
  const Type* known = find_type(type);
  return known ? dtype_from_name(known->name) : std::nullopt;
}

std::optional<uint32_t> type_number(DType dtype) {
  const auto found = std::ranges::find(kTypes, name_of(dtype), &Type::name);
  if (found == kTypes.end()) return std::nullopt;
  return found->number;
}

std::string type_name(uint32_t type) {
  const Type* known = find_type(type);
  return known ? std::string(known->name) : "type " + std::to_string(type);
}

}  // namespace rlx::gguf
