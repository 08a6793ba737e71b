// SPDX-License-Identifier: Apache-2.0
// What a tuner found, as JSON: compiles the same plan again where the device is not, and has every
// time that was measured beside its estimate, for whoever fits a device model.
#pragma once

#include <optional>
#include <string>

#include "compiler/compile.h"
#include "compiler/support/diagnostics.h"
#include "tools/tune_forms/tune_forms.h"

namespace rlx::tune {

Status write_form_file(const std::string& path, const FormTuneReport& report);

// nullopt where anything was reported.
std::optional<TunedTarget> read_form_file(const std::string& path, Diagnostics& diagnostics);

}  // namespace rlx::tune
