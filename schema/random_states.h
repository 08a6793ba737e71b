// SPDX-License-Identifier: Apache-2.0
// The states by which a session's random numbers are drawn: the compiler makes them where a model
// draws any, and the runtime knows them by name.
#pragma once

namespace rlx {

inline constexpr char kRandomSeedState[] =
    "rlx.random.seed";  // i64 of rank 0: 64 bits of any value
inline constexpr char kRandomStepState[] = "rlx.random.step";  // u32 of rank 0: runs, modulo 2^32

}  // namespace rlx
