// SPDX-License-Identifier: Apache-2.0
// A Report as text, as JSON and as a trace.
#pragma once

#include <string>
#include <vector>

#include "tools/rlxrun/run.h"

namespace rlx::tool {

std::string report_text(const Report& report);
std::string report_json(const Report& report);
// Chrome's trace event format, which Perfetto reads: the profiled steps, one after another.
std::string trace_json(const Report& report);

// The plan as a page (tools/inspect/html.h) with the profiled steps, at the sizes of the run.
std::string report_page(const Options& options, const Report& report);

std::string devices_text(const std::vector<DeviceFacts>& devices, const std::string& note);
std::string devices_json(const std::vector<DeviceFacts>& devices, const std::string& note);

}  // namespace rlx::tool
