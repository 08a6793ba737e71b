// SPDX-License-Identifier: Apache-2.0
// Catch2 of either major version (Debian 12 ships 2, Debian 13 and Ubuntu 24.04 ship 3).
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
