// SPDX-License-Identifier: Apache-2.0
// A campaign as text and as JSON.
#pragma once

#include <string>

#include "tests/soak/campaign.h"

namespace rlx::soak {

std::string report_text(const Campaign& campaign);
std::string report_json(const Campaign& campaign);

}  // namespace rlx::soak
