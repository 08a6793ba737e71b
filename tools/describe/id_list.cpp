// SPDX-License-Identifier: Apache-2.0
#include "tools/describe/id_list.h"

#include <charconv>
#include <string_view>
#include <system_error>

namespace rlx::tool {
namespace {

int32_t id_of(const std::string& flag, std::string_view item, size_t place) {
  int32_t id = 0;
  const char* const end = item.data() + item.size();
  const auto read = std::from_chars(item.data(), end, id);
  if (!item.empty() && read.ec == std::errc() && read.ptr == end) return id;
  const std::string what =
      item.empty() ? "an id is empty" : "\"" + std::string(item) + "\" is no id";
  throw CLI::ValidationError(flag + ": " + what + ", number " + std::to_string(place) +
                             " of the list; give the ids of tokens as 1,2,3");
}

}  // namespace

// Not by CLI11's own delimiter, which passes over items that are empty.
CLI::Option* add_id_list(CLI::App& app, const std::string& flag, std::vector<int32_t>& ids,
                         const std::string& text) {
  return app
      .add_option_function<std::string>(
          flag,
          [flag, &ids](const std::string& given) {
            ids.clear();
            size_t begin = 0;
            while (true) {
              const size_t comma = given.find(',', begin);
              const auto item = std::string_view(given).substr(begin, comma - begin);
              ids.push_back(id_of(flag, item, ids.size() + 1));
              if (comma == std::string::npos) return;
              begin = comma + 1;
            }
          },
          text)
      ->type_name("IDS");
}

}  // namespace rlx::tool
