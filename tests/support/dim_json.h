// SPDX-License-Identifier: Apache-2.0
// Fixed sizes as JSON numbers, found by nlohmann/json where it meets a Dim.
#pragma once

#include <nlohmann/json.hpp>

#include "compiler/support/dim.h"

namespace rlx {

template <typename Json>
requires nlohmann::detail::is_basic_json<Json>::value void to_json(Json& json, const Dim& dim) {
  json = static_cast<int64_t>(dim);
}

template <typename Json>
requires nlohmann::detail::is_basic_json<Json>::value void from_json(const Json& json, Dim& dim) {
  dim = json.template get<int64_t>();
}

}  // namespace rlx
