// SPDX-License-Identifier: Apache-2.0
// A library product in words, for messages, reports and views.
#pragma once

#include <string>

#include "schema/plan_generated.h"

namespace rlx {

// "4096 x 768 x 3072 of f16, b transposed, bias, residual": m, n, k; then what is not plain.
std::string gemm_text(const fb::LibraryGemm& gemm);

}  // namespace rlx
