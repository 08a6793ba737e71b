// SPDX-License-Identifier: Apache-2.0
// The families' tables.
#include "compiler/lower/offer_names.h"

#include <algorithm>

#include "compiler/ops/attention/attention_lower.h"
#include "compiler/ops/product/product_offers.h"
#include "compiler/ops/vision/conv_offers.h"
#include "compiler/ops/weighted/weighted_product.h"

namespace rlx {
namespace {

template <typename Row>
void add_names(std::vector<std::string>& names, std::span<const Row> table) {
  for (const Row& row : table) {
    names.push_back(offer_name(row.kernel, {}));
    if (!row.form.empty()) names.push_back(offer_name(row.kernel, row.form));
  }
}

}  // namespace

std::vector<std::string> all_offer_names() {
  std::vector<std::string> names;
  add_names(names, product_offers());
  add_names(names, weighted_offers());
  add_names(names, conv_offers());
  add_names(names, attention_offers());
  std::erase(names, std::string());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace rlx
