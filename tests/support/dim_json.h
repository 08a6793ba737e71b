// SPDX-License-Identifier: Apache-2.0
// Sizes as JSON numbers, free ones as the text of their expression, found by nlohmann/json where it
// meets a Dim.
#pragma once

#include <nlohmann/json.hpp>

#include "compiler/support/dim.h"

namespace rlx {

template <typename Json>
requires nlohmann::detail::is_basic_json<Json>::value void to_json(Json& json, const Dim& dim) {
  if (dim.is_free()) {
    json = to_string(dim);
  } else {
    json = dim.bound();
  }
}

template <typename Json>
requires nlohmann::detail::is_basic_json<Json>::value void from_json(const Json& json, Dim& dim) {
  dim = json.template get<int64_t>();
}

}  // namespace rlx
