// SPDX-License-Identifier: Apache-2.0
// One line per plan and neighbour, then the sums.
#include "tests/soak/report.h"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace rlx::soak {
namespace {

template <class... Arguments>
std::string formatted(const char* format, Arguments... arguments) {
  std::array<char, 512> line{};
  std::snprintf(line.data(), line.size(), format, arguments...);
  return line.data();
}

std::string line_of(const Result& result) {
  const std::string plan = std::filesystem::path(result.task.plan).filename().string();
  std::string growth = "         -       -";
  if (result.judges_growth)
    growth = formatted("%10" PRId64 " %7" PRId64, result.grown_bytes / 1024, result.grown_objects);
  return formatted("%-40s %-6s %10" PRIu64 " %9.0f %10" PRIu64 " %8.1f %10" PRIu64 " %6" PRIu64,
                   plan.c_str(), name_of(result.task.beside), result.replays,
                   result.replays_per_second(), result.neighbour_replays,
                   100 * result.compared_share(), result.mismatches, result.errors) +
         " " + growth + "\n";
}

}  // namespace

std::string report_text(const Campaign& campaign) {
  std::string text =
      campaign.device + "\n" +
      formatted("%-40s %-6s %10s %9s %10s %8s %10s %6s %10s %7s\n", "plan", "beside", "replays",
                "per s", "beside it", "% compd", "mismatches", "errors", "RSS +KiB", "objects");
  uint64_t replays = 0;
  uint64_t beside = 0;
  for (const Result& result : campaign.results) {
    text += line_of(result);
    replays += result.replays;
    beside += result.neighbour_replays;
  }
  for (const Result& result : campaign.results) {
    if (!result.refused.empty())
      text += "refused: " + result.task.plan + ": " + result.refused + "\n";
    if (result.fault.empty()) continue;
    text += "fault: " + result.task.plan + " beside " + name_of(result.task.beside) + ": " +
            result.fault + "\n";
  }
  return text + formatted("%zu plans and neighbours, %" PRIu64 " replays and %" PRIu64
                          " beside them in %.0f s: %zu faults, %zu refused\n",
                          campaign.results.size(), replays, beside, campaign.seconds,
                          campaign.fault_count(), campaign.refused_count());
}

std::string report_json(const Campaign& campaign) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const Result& result : campaign.results) {
    nlohmann::ordered_json line = {{"plan", result.task.plan},
                                   {"beside", name_of(result.task.beside)},
                                   {"replays", result.replays},
                                   {"replays_per_second", result.replays_per_second()},
                                   {"neighbour_replays", result.neighbour_replays},
                                   {"compared_share", result.compared_share()},
                                   {"mismatches", result.mismatches},
                                   {"errors", result.errors},
                                   {"fault", result.fault},
                                   {"refused", result.refused}};
    if (result.judges_growth) {
      line["grown_bytes"] = result.grown_bytes;
      line["grown_objects"] = result.grown_objects;
    }
    results.push_back(std::move(line));
  }
  const nlohmann::ordered_json json = {{"device", campaign.device},
                                       {"seconds", campaign.seconds},
                                       {"faults", campaign.fault_count()},
                                       {"refused", campaign.refused_count()},
                                       {"results", std::move(results)}};
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace rlx::soak
