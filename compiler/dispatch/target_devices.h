// SPDX-License-Identifier: Apache-2.0
// What devices a target's programs are chosen for, where a plan holds several of one kind. For
// emit: passes and lowerings never ask.
#pragma once

#include "compiler/dispatch/target.h"
#include "schema/plan_header.h"

namespace rlx {

DeviceType made_for(const Target& target);

}  // namespace rlx
