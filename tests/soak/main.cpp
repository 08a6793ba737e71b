// SPDX-License-Identifier: Apache-2.0
// rlx_soak: replays plans again and again, alone and beside others, and compares every bit.
#include <cstdio>
#include <exception>

#include "tests/soak/campaign.h"
#include "tests/soak/report.h"
#include "tools/rlxrun/errors.h"

int main(int argc, char** argv) {
  using namespace rlx::soak;
  using rlx::tool::ExitCode;
  const ParsedCommandLine parsed = parse_command_line(argc, argv);
  if (parsed.exit) return *parsed.exit;
  try {
    const Campaign campaign = soak(parsed.options);
    const std::string report = parsed.options.json ? report_json(campaign) : report_text(campaign);
    std::fputs(report.c_str(), stdout);
    if (campaign.fault_count() > 0) return static_cast<int>(ExitCode::Mismatch);
    const bool nothing_ran = campaign.refused_count() == campaign.results.size();
    return static_cast<int>(nothing_ran ? ExitCode::DeviceUnsuitable : ExitCode::Ok);
  } catch (const rlx::tool::Failure& failure) {
    std::fprintf(stderr, "rlx_soak: error: %s\n", failure.what());
    return static_cast<int>(failure.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rlx_soak: error: %s\n", error.what());
    return static_cast<int>(ExitCode::Internal);
  }
}
