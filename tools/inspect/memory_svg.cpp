// SPDX-License-Identifier: Apache-2.0
// The arena of one entry as an SVG document.
#include <algorithm>
#include <stdexcept>

#include "tools/inspect/facts.h"
#include "tools/inspect/format.h"
#include "tools/inspect/inspect.h"
#include "tools/inspect/svg.h"
#include "tools/inspect/views.h"

namespace rlx::inspect {
namespace {

constexpr double kMargin = 60;
constexpr double kPlotHeight = 480;
constexpr double kLeastPlotWidth = 480;
constexpr double kMostPlotWidth = 4000;
constexpr double kWaveWidth = 14;

// Hues spread by the golden angle, so that neighbours differ.
std::string color_of(size_t index) {
  return "hsl(" + std::to_string(index * 137 % 360) + ",60%,70%)";
}

struct Scale {
  double wave_width;
  double byte_height;

  [[nodiscard]] double x(uint64_t wave) const {
    return kMargin + static_cast<double>(wave) * wave_width;
  }
  // SVG counts downwards; offsets go up.
  [[nodiscard]] double y(uint64_t offset) const {
    return kMargin + kPlotHeight - static_cast<double>(offset) * byte_height;
  }
};

std::string rectangle(const Scale& scale, const ValueFacts& value, size_t index) {
  const uint64_t end = value.offset_bytes + value.size_bytes;
  return "<rect" + attribute("x", scale.x(value.first_wave)) + attribute("y", scale.y(end)) +
         attribute("width", scale.x(uint64_t{value.last_wave} + 1) - scale.x(value.first_wave)) +
         attribute("height", scale.y(value.offset_bytes) - scale.y(end)) + " fill=\"" +
         color_of(index) + "\" stroke=\"#333\" stroke-width=\"0.5\"><title>" +
         escaped(plain_text(value.name) + " " + value.type + "\noffset " +
                 grouped(value.offset_bytes) + ", " + grouped(value.size_bytes) + " bytes\nwaves " +
                 std::to_string(value.first_wave) + " to " + std::to_string(value.last_wave)) +
         "</title></rect>\n";
}

std::string document(const EntryFacts& entry) {
  const double plot_width =
      std::clamp(entry.wave_count * kWaveWidth, kLeastPlotWidth, kMostPlotWidth);
  const Scale scale{
      .wave_width = plot_width / std::max<uint32_t>(entry.wave_count, 1),
      .byte_height = kPlotHeight / static_cast<double>(std::max<uint64_t>(entry.arena_bytes, 1))};
  const double width = plot_width + 2 * kMargin;
  const double height = kPlotHeight + 2 * kMargin;
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"" + attribute("width", width) +
                    attribute("height", height) +
                    " font-family=\"sans-serif\" font-size=\"11\">\n<rect" +
                    attribute("width", width) + attribute("height", height) + " fill=\"white\"/>\n";
  svg += text_at(kMargin, kMargin / 2, "start",
                 entry_title(entry) + ": arena " + byte_count(entry.arena_bytes) +
                     ", lower bound " + byte_count(entry.lower_bound_bytes) + ", without reuse " +
                     byte_count(entry.unplanned_bytes));
  svg += "<rect" + attribute("x", kMargin) + attribute("y", kMargin) +
         attribute("width", plot_width) + attribute("height", kPlotHeight) +
         " fill=\"none\" stroke=\"#999\"/>\n";
  const std::vector<ValueFacts> values = arena_values(entry);
  for (size_t i = 0; i < values.size(); ++i) svg += rectangle(scale, values[i], i);
  const double bound = scale.y(entry.lower_bound_bytes);
  svg += "<line" + attribute("x1", kMargin) + attribute("x2", kMargin + plot_width) +
         attribute("y1", bound) + attribute("y2", bound) +
         " stroke=\"#c00\" stroke-dasharray=\"4 3\"/>\n";
  svg += text_at(kMargin - 4, scale.y(0), "end", "0");
  svg += text_at(kMargin - 4, scale.y(entry.arena_bytes), "end", grouped(entry.arena_bytes));
  svg += text_at(kMargin, kMargin + kPlotHeight + 16, "start", "wave 0");
  svg += text_at(kMargin + plot_width, kMargin + kPlotHeight + 16, "end",
                 count_text(entry.wave_count, "wave"));
  return svg + "</svg>\n";
}

}  // namespace
}  // namespace rlx::inspect

namespace rlx {

std::string memory_svg(const PlanView& plan, uint32_t entry) {
  const std::vector<inspect::EntryFacts> entries = inspect::entry_facts(plan);
  if (entry >= entries.size()) {
    throw std::out_of_range("entry " + std::to_string(entry) + " of a plan with " +
                            std::to_string(entries.size()) + " entries");
  }
  return inspect::document(entries[entry]);
}

}  // namespace rlx
