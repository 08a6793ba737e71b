// SPDX-License-Identifier: Apache-2.0
// Libraries of kernels without what a kernel does not need: most of a kernel's includes are
// functions that it never calls, and a compiler takes longer to read them than for many a kernel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rlx {

// Each of `libraries` with blank lines in the places of functions that neither `kernel`, nor the
// other text of the libraries, nor functions that those need name. A function is what begins a line
// with RLX_FN or RLX_BIG_FN (behind a line of "template", if any) and ends with that line or with
// the first one that a } begins. A word that ends in _ may become part of a longer one
// (RLX_CAT(rlx_load_, RLX_X)): it names all functions that it begins. Where names are made in other
// ways the result lacks functions, and does not compile: the whole libraries are to be tried then.
std::vector<std::string> without_unneeded_functions(std::string_view kernel,
                                                    const std::vector<std::string_view>& libraries);

}  // namespace rlx
