// SPDX-License-Identifier: Apache-2.0
// Every number in the params of every kernel is declared: what it bounds, or that it bounds
// nothing.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "compiler/dispatch/program.h"
#include "tests/support/catch.h"

using namespace rlx;

namespace {

// What stands in brackets behind a field, where it is no number.
const std::map<std::string, int> kArraySizes = {{"", 1},
                                                {"RLX_REGION_BUFFERS", RLX_REGION_BUFFERS},
                                                {"RLX_EXTENSION_OPERANDS", RLX_EXTENSION_OPERANDS}};

struct Field {
  std::string type;
  std::string name;
  uint32_t position = 0;
};

// The fields of each struct of kernel_params.h, arrays element by element, at their places: all
// types are 4 or 8 bytes, and there is no padding.
std::map<std::string, std::vector<Field>> params_structs() {
  std::ifstream stream("schema/kernel_params.h");
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  REQUIRE_FALSE(text.empty());
  const std::regex struct_form(R"(struct (\w+) \{([^}]*)\};)");
  const std::regex field_form(R"(\n *(\w+) (\w+)(?:\[(\w+)\])?;)");
  std::map<std::string, std::vector<Field>> structs;
  for (std::sregex_iterator found(text.begin(), text.end(), struct_form), none; found != none;
       ++found) {
    const std::string body = "\n" + (*found)[2].str();
    std::vector<Field>& fields = structs[(*found)[1]];
    uint32_t position = 0;
    for (std::sregex_iterator field(body.begin(), body.end(), field_form); field != none; ++field) {
      const std::string count = (*field)[3];
      const auto named = kArraySizes.find(count);
      const int elements = named == kArraySizes.end() ? std::stoi(count) : named->second;
      for (int i = 0; i < elements; ++i) {
        fields.push_back({.type = (*field)[1], .name = (*field)[2], .position = position});
        position += fields.back().type == "rlx_ptr" ? 8 : 4;
      }
    }
  }
  return structs;
}

uint32_t end_of(const std::vector<Field>& fields) {
  return fields.empty() ? 0 : fields.back().position + (fields.back().type == "rlx_ptr" ? 8 : 4);
}

}  // namespace

TEST_CASE("every_number_in_the_params_of_every_kernel_is_declared") {
  const std::map<std::string, std::vector<Field>> structs = params_structs();
  constexpr auto kKernelCount = static_cast<size_t>(0)
#define RLX_KERNEL(name, params, determinism, targets, needs) +1
#include "schema/kernels.def"
#undef RLX_KERNEL
      ;
  for (size_t id = 0; id < kKernelCount; ++id) {
    const KernelRow& row = kernel_row(static_cast<KernelId>(id));
    INFO(row.name << ": " << row.params);
    const auto found = structs.find(std::string(row.params));
    REQUIRE(found != structs.end());
    REQUIRE(end_of(found->second) == row.params_bytes);  // nothing was overlooked in the text
    std::map<uint32_t, const ParamsWord*> declared;      // by position, each word
    for (const ParamsWord& word : all_params_words()) {
      if (word.params != row.params) continue;
      for (uint32_t i = 0; i < word.words; ++i) declared[word.position + 4 * i] = &word;
    }
    for (const Field& field : found->second) {
      INFO(field.name << " at byte " << field.position);
      const bool is_pointer = field.type == "rlx_ptr";
      CHECK((is_pointer || field.type == "rlx_uint"));
      CHECK((declared.count(field.position) == 1) == !is_pointer);
      if (is_pointer) CHECK(declared.count(field.position + 4) == 0);
    }
  }
}

TEST_CASE("a_number_bounds_pointers_or_nothing") {
  const std::map<std::string, std::vector<Field>> structs = params_structs();
  std::map<std::pair<std::string_view, uint32_t>, bool> bounds;
  for (const ParamsWord& word : all_params_words()) {
    INFO(word.params << " at byte " << word.position);
    CHECK((word.words == 1 || word.words == 2));
    for (uint32_t i = 0; i < word.words; ++i) {
      const auto [entry, added] =
          bounds.try_emplace({word.params, word.position + 4 * i}, word.bound.has_value());
      // Listed again only for another pointer.
      CHECK((added || (entry->second && word.bound.has_value())));
    }
    if (!word.bound.has_value()) continue;
    const std::vector<Field>& fields = structs.at(std::string(word.params));
    CHECK(std::any_of(fields.begin(), fields.end(), [&](const Field& field) {
      return field.type == "rlx_ptr" && field.position == word.bound->pointer;
    }));
    // The low word of two is followed by the high one.
    if (word.words == 2) {
      const auto low = std::find_if(fields.begin(), fields.end(), [&](const Field& field) {
        return field.position == word.position;
      });
      REQUIRE(low != fields.end());
      REQUIRE(std::next(low) != fields.end());
      CHECK(low->name.ends_with("_low"));
      CHECK(std::next(low)->name == low->name.substr(0, low->name.size() - 3) + "high");
    }
  }
}
