// SPDX-License-Identifier: Apache-2.0
// The families' tables.
#include "compiler/lower/offer_names.h"

#include <algorithm>

#include "compiler/ops/attention/attention_lower.h"
#include "compiler/ops/indexing/scatter_lower.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/product/product_offers.h"
#include "compiler/ops/rows/row_tables.h"
#include "compiler/ops/sequences/recurrence.h"
#include "compiler/ops/sequences/sequence_tables.h"
#include "compiler/ops/vision/conv_offers.h"
#include "compiler/ops/vision/pool_offers.h"
#include "compiler/ops/weighted/weighted_product.h"

namespace rlx {
std::vector<std::string> all_offer_names() {
  std::vector<std::string> names;
  for (const std::vector<std::string>& family :
       {offer_names(product_offers()), offer_names(weighted_offers()), offer_names(conv_offers()),
        offer_names(attention_offers()), scatter_offer_names(), softmax_offer_names(),
        norm_offer_names(), moments_offer_names(), reduce_offer_names(), arg_reduce_offer_names(),
        cumulative_offer_names(), sort_offer_names(), copy_offer_names(), pool_offer_names(),
        recurrence_offer_names(), linear_recurrence_offer_names(), selective_scan_offer_names()}) {
    names.insert(names.end(), family.begin(), family.end());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace rlx
