// SPDX-License-Identifier: Apache-2.0
// What may be left out of the tables of kernels that walk along sequences.
#pragma once

#include <string>
#include <vector>

namespace rlx {

std::vector<std::string> linear_recurrence_offer_names();
std::vector<std::string> selective_scan_offer_names();

}  // namespace rlx
