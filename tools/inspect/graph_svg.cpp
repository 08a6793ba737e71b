// SPDX-License-Identifier: Apache-2.0
// The steps of one entry and what they hand on, as an SVG document: waves from top to bottom.
#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "tools/inspect/facts.h"
#include "tools/inspect/format.h"
#include "tools/inspect/inspect.h"
#include "tools/inspect/svg.h"
#include "tools/inspect/views.h"

namespace rlx::inspect {
namespace {

constexpr double kBoxWidth = 200;
constexpr double kBoxHeight = 40;
constexpr double kGap = 24;
constexpr size_t kMostLetters = 28;  // of a name in a box

struct Place {
  double x = 0;  // of the box's middle
  double y = 0;  // of its top
};

// Pairs of steps: the second reads what the first wrote last.
std::set<std::pair<uint32_t, uint32_t>> handed_on(const EntryFacts& entry) {
  std::map<std::string, uint32_t> writers;
  std::set<std::pair<uint32_t, uint32_t>> pairs;
  for (const StepFacts& step : entry.steps) {
    for (const AccessFacts& access : step.accesses) {
      const auto writer = writers.find(access.value);
      if (access.mode != "write" && writer != writers.end())
        pairs.emplace(writer->second, step.position);
    }
    for (const AccessFacts& access : step.accesses) {
      if (access.mode == "write" || access.mode == "read-write")
        writers[access.value] = step.position;
    }
  }
  return pairs;
}

// Each wave a row, its steps side by side around the middle.
std::vector<Place> places(const EntryFacts& entry, double& width) {
  std::vector<uint32_t> counts(entry.wave_count);
  for (const StepFacts& step : entry.steps) ++counts[step.wave];
  const uint32_t most = counts.empty() ? 1 : *std::max_element(counts.begin(), counts.end());
  width = std::max<uint32_t>(most, 1) * (kBoxWidth + kGap) + 4 * kGap;
  std::vector<uint32_t> placed(entry.wave_count);
  std::vector<Place> all;
  for (const StepFacts& step : entry.steps) {
    const double column = placed[step.wave]++ - (counts[step.wave] - 1) / 2.0;
    all.push_back({.x = width / 2 + column * (kBoxWidth + kGap),
                   .y = 2 * kGap + step.wave * (kBoxHeight + kGap)});
  }
  return all;
}

std::string curve(const Place& from, const Place& to) {
  const double down = from.y + kBoxHeight;
  const bool is_far = to.y - down > kGap + 1;
  const double bend = is_far ? kBoxWidth * 0.62 : 0;
  return "<path d=\"M" + three_digits(from.x) + " " + three_digits(down) + " C" +
         three_digits(from.x + bend) + " " + three_digits(down + kGap) + "," +
         three_digits(to.x + bend) + " " + three_digits(to.y - kGap) + "," + three_digits(to.x) +
         " " + three_digits(to.y) + "\" fill=\"none\" stroke=\"#888\"/>\n";
}

// In the middle of a long name stand three dots; no UTF-8 sequence is cut.
std::string fitting(std::string name) {
  if (name.size() <= kMostLetters) return name;
  const auto is_inside = [&](size_t at) {
    return (static_cast<unsigned char>(name[at]) & 0xC0U) == 0x80;
  };
  size_t head = kMostLetters / 2 - 2;
  size_t tail = name.size() - (kMostLetters / 2 - 1);
  while (head > 0 && is_inside(head)) --head;
  while (tail < name.size() && is_inside(tail)) ++tail;
  return name.substr(0, head) + "..." + name.substr(tail);
}

std::string box(const Place& place, const StepFacts& step) {
  const std::string node = step.names.node.empty() ? step_title(step) : plain_text(step.names.node);
  const double left = place.x - kBoxWidth / 2;
  return "<rect" + attribute("x", left) + attribute("y", place.y) + attribute("width", kBoxWidth) +
         attribute("height", kBoxHeight) + " rx=\"5\" fill=\"white\" stroke=\"#555\"><title>" +
         escaped("step " + std::to_string(step.position) + ": " + node + "\n" + step_title(step) +
                 "\n" + grouped(step.bytes_moved) + " bytes, " + flop_count(step.flops)) +
         "</title></rect>\n" +
         text_at(left + 8, place.y + 16, "start",
                 std::to_string(step.position) + "  " + fitting(node)) +
         text_at(left + 8, place.y + 32, "start", fitting(step_title(step)));
}

std::string graph_document(const EntryFacts& entry) {
  double width = 0;
  const std::vector<Place> at = places(entry, width);
  const double height = 3 * kGap + entry.wave_count * (kBoxHeight + kGap);
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\"" + attribute("width", width) +
      attribute("height", height) + " font-family=\"sans-serif\" font-size=\"11\">\n<rect" +
      attribute("width", width) + attribute("height", height) + " fill=\"white\"/>\n" +
      text_at(kGap, kGap, "start",
              entry_title(entry) + ": " + count_text(entry.steps.size(), "step") + " in " +
                  count_text(entry.wave_count, "wave"));
  for (const auto& [from, to] : handed_on(entry)) svg += curve(at[from], at[to]);
  for (const StepFacts& step : entry.steps) svg += box(at[step.position], step);
  return svg + "</svg>\n";
}

}  // namespace
}  // namespace rlx::inspect

namespace rlx {

std::string graph_svg(const PlanView& plan, uint32_t entry) {
  const std::vector<inspect::EntryFacts> entries = inspect::entry_facts(plan);
  if (entry >= entries.size()) {
    throw std::out_of_range("entry " + std::to_string(entry) + " of a plan with " +
                            std::to_string(entries.size()) + " entries");
  }
  return inspect::graph_document(entries[entry]);
}

}  // namespace rlx
