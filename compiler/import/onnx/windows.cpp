// SPDX-License-Identifier: Apache-2.0
// The window attributes that convolutions and pools share.
#include "compiler/import/onnx/windows.h"

#include <algorithm>

#include "schema/rounding.h"

namespace rlx::onnx_import {
namespace {

// The result has ceil(size / stride) windows; an odd rest of the pads goes to the end (SAME_UPPER)
// or the begin.
void set_same_pads(NodeReader& n, bool upper, Windows& windows) {
  const size_t rank = windows.kernel.size();
  for (size_t i = 0; i < rank; ++i) {
    const int64_t size = n.shape(0)[i + 2];
    const int64_t count = ceil_div(size, windows.stride[i]);
    const int64_t reach = windows.dilation[i] * (windows.kernel[i] - 1) + 1;
    const int64_t total = std::max<int64_t>((count - 1) * windows.stride[i] + reach - size, 0);
    const int64_t smaller = total / 2;
    windows.pads[i] = upper ? smaller : total - smaller;
    windows.pads[i + rank] = upper ? total - smaller : smaller;
  }
}

Ints list_of(NodeReader& n, const char* name, size_t count, int64_t absent, int64_t least) {
  const Ints values = n.integers(name, Ints(count, absent));
  if (values.size() != count)
    n.refuse_shapes("attribute \"" + std::string(name) + "\" has " + std::to_string(values.size()) +
                    " values, wanted " + std::to_string(count));
  for (const int64_t value : values) {
    if (value >= least && value <= int64_t{1} << 31) continue;
    n.refuse("attribute \"" + std::string(name) + "\" holds " + std::to_string(value) +
             ", wanted " + std::to_string(least) + " to 2^31");
  }
  return values;
}

}  // namespace

Windows read_windows(NodeReader& n, const Ints& kernel) {
  Windows windows;
  windows.kernel = n.integers("kernel_shape", kernel);
  const size_t rank = windows.kernel.size();
  if (rank == 0 || n.rank(0) != static_cast<int64_t>(rank) + 2)
    n.refuse_shapes("x " + to_string(n.shape(0)) + " has no batch, channels and " +
                    std::to_string(rank) + " axes of windows");
  for (const int64_t size : windows.kernel) {
    if (size < 1 || size > (int64_t{1} << 31)) n.refuse("a window has no size");
  }
  windows.stride = list_of(n, "strides", rank, 1, 1);
  windows.dilation = list_of(n, "dilations", rank, 1, 1);
  const std::string automatic = n.text("auto_pad", "NOTSET");
  windows.pads = list_of(n, "pads", 2 * rank, 0, 0);
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    set_same_pads(n, automatic == "SAME_UPPER", windows);
  } else if (automatic == "VALID") {
    windows.pads.assign(2 * rank, 0);
  } else if (automatic != "NOTSET" && !automatic.empty()) {
    n.refuse("auto_pad is \"" + automatic + "\"");
  }
  return windows;
}

Attributes attributes_of(const Windows& windows) {
  return {{"kernel", windows.kernel},
          {"stride", windows.stride},
          {"dilation", windows.dilation},
          {"pads", windows.pads}};
}

}  // namespace rlx::onnx_import
