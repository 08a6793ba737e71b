// SPDX-License-Identifier: Apache-2.0
// What may be left out of the tables (ops/lowering/offers.h) of the families over rows.
#pragma once

#include <string>
#include <vector>

namespace rlx {

std::vector<std::string> softmax_offer_names();
std::vector<std::string> norm_offer_names();
std::vector<std::string> moments_offer_names();
std::vector<std::string> reduce_offer_names();
std::vector<std::string> arg_reduce_offer_names();
std::vector<std::string> cumulative_offer_names();
std::vector<std::string> sort_offer_names();

}  // namespace rlx
