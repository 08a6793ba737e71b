// SPDX-License-Identifier: Apache-2.0
// The schedule checker: plain loops over all pairs.
#include "tests/lower/check_schedule.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "schema/plan_header.h"

namespace rlx {
namespace {

bool writes(const Access& access) {
  return access.mode != AccessMode::Read;
}

uint64_t aligned(uint64_t bytes) {
  const uint64_t over = bytes % kArenaAlignmentBytes;
  return over == 0 ? bytes : bytes - over + kArenaAlignmentBytes;
}

std::string quoted(const std::string& name) {
  return "\"" + name + "\"";
}

class Checker {
 public:
  Checker(const Program& program, const Schedule& schedule)
      : program_(program), schedule_(schedule), count_(schedule.order.size()) {}

  std::vector<ScheduleFault> run() {
    check_shape();
    if (!faults_.empty()) return std::move(faults_);
    collect_accesses();
    if (!faults_.empty()) return std::move(faults_);
    check_waves();
    check_placement();
    check_lifetimes();
    check_first_writes();
    check_in_place();
    check_overlap();
    check_accounting();
    find_reachable();
    check_conflicts();
    check_spare_edges();
    return std::move(faults_);
  }

 private:
  struct Touch {
    uint32_t position;
    uint32_t step;
    const Access* access;
    uint64_t begin;  // in the buffer
    uint64_t end;
  };

  void fault(ScheduleFaultKind kind, std::string message) {
    faults_.push_back({.kind = kind, .message = std::move(message)});
  }
  [[nodiscard]] std::string step_text(uint32_t position) const {
    return "position " + std::to_string(position) + " (node " +
           quoted(program_.steps[schedule_.order[position]].node) + ")";
  }
  [[nodiscard]] bool in_arena(size_t buffer) const {
    return program_.buffers[buffer].segment == Segment::Arena;
  }

  void check_shape() {
    const size_t buffers = program_.buffers.size();
    const auto expect = [&](std::string_view what, size_t got, size_t wanted) {
      if (got == wanted) return;
      fault(ScheduleFaultKind::Shape, std::string(what) + " has " + std::to_string(got) +
                                          " entries, wanted " + std::to_string(wanted));
    };
    expect("order", count_, program_.steps.size());
    expect("wave", schedule_.wave.size(), count_);
    expect("edges", schedule_.edges.size(), count_);
    expect("buffer_offsets", schedule_.buffer_offsets.size(), buffers);
    expect("lifetimes", schedule_.lifetimes.size(), buffers);
    expect("in_place_of", schedule_.in_place_of.size(), buffers);
    if (!faults_.empty()) return;
    std::vector<bool> seen(count_, false);
    for (size_t position = 0; position < count_; ++position) {
      const uint32_t step = schedule_.order[position];
      if (step >= count_ || seen[step]) {
        fault(ScheduleFaultKind::Order, "order is no permutation: step " + std::to_string(step) +
                                            " at position " + std::to_string(position));
        return;
      }
      seen[step] = true;
      for (const uint32_t from : schedule_.edges[position]) {
        if (from >= position) {
          fault(ScheduleFaultKind::Shape, "edge to position " + std::to_string(position) +
                                              " comes from the later position " +
                                              std::to_string(from));
        }
      }
    }
    for (const std::optional<BufferId>& source : schedule_.in_place_of) {
      if (source && index_of(*source) >= buffers) {
        fault(ScheduleFaultKind::Shape, "in_place_of names buffer " +
                                            std::to_string(index_of(*source)) + " of " +
                                            std::to_string(buffers));
      }
    }
  }

  void collect_accesses() {
    for (uint32_t position = 0; position < count_; ++position) {
      const uint32_t step = schedule_.order[position];
      for (const Access& access : program_.steps[step].accesses) {
        if (access.range_bytes == 0) continue;
        const uint64_t end = access.range_offset_bytes + access.range_bytes;
        if (end < access.range_bytes || index_of(access.buffer) >= program_.buffers.size() ||
            end > program_.buffers[index_of(access.buffer)].size_bytes) {
          fault(ScheduleFaultKind::Access,
                step_text(position) + " accesses bytes up to " + std::to_string(end) +
                    " of buffer " + std::to_string(index_of(access.buffer)) + ", which is smaller");
          continue;
        }
        touches_.push_back({.position = position,
                            .step = step,
                            .access = &access,
                            .begin = access.range_offset_bytes,
                            .end = end});
      }
    }
  }

  void check_waves() {
    std::vector<bool> used(schedule_.wave_count, false);
    for (uint32_t position = 0; position < count_; ++position) {
      const uint32_t wave = schedule_.wave[position];
      if (wave >= schedule_.wave_count || (position > 0 && wave < schedule_.wave[position - 1])) {
        fault(ScheduleFaultKind::Order, step_text(position) + " has wave " + std::to_string(wave));
        continue;
      }
      used[wave] = true;
      for (const uint32_t from : schedule_.edges[position]) {
        if (schedule_.wave[from] >= wave) {
          fault(ScheduleFaultKind::SameWave, step_text(position) + " waits for " + step_text(from) +
                                                 " of the same wave " + std::to_string(wave));
        }
      }
    }
    for (uint32_t wave = 0; wave < schedule_.wave_count; ++wave) {
      if (!used[wave])
        fault(ScheduleFaultKind::Order, "wave " + std::to_string(wave) + " is empty");
    }
  }

  void check_placement() {
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      const uint64_t offset = schedule_.buffer_offsets[i];
      if (!schedule_.lifetimes[i]) {
        if (offset != 0) {
          fault(ScheduleFaultKind::Placement, "buffer " + quoted(buffer.name) +
                                                  " is not in use but has offset " +
                                                  std::to_string(offset));
        }
        continue;
      }
      if (offset % kArenaAlignmentBytes != 0 || buffer.size_bytes > schedule_.arena_bytes ||
          offset > schedule_.arena_bytes - buffer.size_bytes) {
        fault(ScheduleFaultKind::Placement, "buffer " + quoted(buffer.name) + " of " +
                                                to_string(buffer.size_bytes) + " bytes at offset " +
                                                std::to_string(offset) + " of an arena of " +
                                                std::to_string(schedule_.arena_bytes) + " bytes");
      }
    }
  }

  // Lifetimes afresh from the accesses.
  void check_lifetimes() {
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      std::optional<Lifetime> wanted;
      for (const Touch& touch : touches_) {
        if (index_of(touch.access->buffer) != i || !in_arena(i)) continue;
        const uint32_t wave = schedule_.wave[touch.position];
        if (!wanted) {
          wanted = Lifetime{.first_wave = wave, .first_position = touch.position};
        }
        wanted->last_wave = wave;
        wanted->last_position = touch.position;
      }
      if (wanted == schedule_.lifetimes[i]) continue;
      fault(ScheduleFaultKind::Lifetime,
            "lifetime of buffer " + quoted(program_.buffers[i].name) +
                " is not that of its accesses" +
                (wanted ? ", waves " + std::to_string(wanted->first_wave) + " to " +
                              std::to_string(wanted->last_wave)
                        : ", of which there are none"));
    }
  }

  void check_first_writes() {
    std::vector<bool> written(program_.buffers.size(), false);
    for (const Touch& touch : touches_) {
      const size_t buffer = index_of(touch.access->buffer);
      if (in_arena(buffer) && !written[buffer] && !writes(*touch.access)) {
        fault(ScheduleFaultKind::Access, step_text(touch.position) + " reads buffer " +
                                             quoted(program_.buffers[buffer].name) +
                                             " that no earlier step wrote");
      }
      written[buffer] = written[buffer] || writes(*touch.access);
    }
  }

  // Touches of a buffer by other steps than the one at `position`, in waves first..last.
  [[nodiscard]] bool touched_by_others(size_t buffer, uint32_t position, uint32_t first,
                                       uint32_t last) const {
    return std::any_of(touches_.begin(), touches_.end(), [&](const Touch& touch) {
      const uint32_t wave = schedule_.wave[touch.position];
      return index_of(touch.access->buffer) == buffer && touch.position != position &&
             wave >= first && wave <= last;
    });
  }

  void check_in_place() {
    for (size_t output = 0; output < program_.buffers.size(); ++output) {
      if (!schedule_.in_place_of[output]) continue;
      const size_t input = index_of(*schedule_.in_place_of[output]);
      if (!takeover_allowed(output, input)) {
        fault(ScheduleFaultKind::InPlace, "buffer " + quoted(program_.buffers[output].name) +
                                              " may not take over the bytes of " +
                                              quoted(program_.buffers[input].name));
      }
    }
  }

  [[nodiscard]] bool takeover_allowed(size_t output, size_t input) const {
    const std::optional<Lifetime>& born = schedule_.lifetimes[output];
    const std::optional<Lifetime>& dying = schedule_.lifetimes[input];
    if (output == input || !in_arena(output) || !in_arena(input) || !born || !dying) return false;
    if (schedule_.buffer_offsets[output] != schedule_.buffer_offsets[input]) return false;
    const uint32_t position = born->first_position;
    if (dying->last_position != position || position >= count_) return false;
    const Step& step = program_.steps[schedule_.order[position]];
    if (step.in_place_input != BufferId(input)) return false;
    // Every access of the step to either buffer covers the same bytes from the start.
    uint64_t input_bytes = 0;
    uint64_t output_bytes = 0;
    int touches = 0;
    for (const Touch& touch : touches_) {
      const size_t buffer = index_of(touch.access->buffer);
      if (touch.position != position || (buffer != output && buffer != input)) continue;
      if (touch.begin != 0 || touch.access->offset_bytes != 0) return false;
      if (writes(*touch.access) != (buffer == output)) return false;
      (buffer == output ? output_bytes : input_bytes) = touch.end;
      ++touches;
    }
    const uint32_t wave = schedule_.wave[position];
    return touches == 2 && input_bytes == output_bytes &&
           !touched_by_others(input, position, wave, schedule_.wave_count) &&
           !touched_by_others(output, position, 0, wave);
  }

  void check_overlap() {
    for (size_t a = 0; a < program_.buffers.size(); ++a) {
      for (size_t b = a + 1; b < program_.buffers.size(); ++b) {
        if (!schedule_.lifetimes[a] || !schedule_.lifetimes[b]) continue;
        if (schedule_.in_place_of[a] == BufferId(b) || schedule_.in_place_of[b] == BufferId(a))
          continue;
        const Lifetime& x = *schedule_.lifetimes[a];
        const Lifetime& y = *schedule_.lifetimes[b];
        if (x.last_wave < y.first_wave || y.last_wave < x.first_wave) continue;
        const uint64_t x_begin = schedule_.buffer_offsets[a];
        const uint64_t y_begin = schedule_.buffer_offsets[b];
        if (x_begin + program_.buffers[a].size_bytes <= y_begin ||
            y_begin + program_.buffers[b].size_bytes <= x_begin) {
          continue;
        }
        fault(ScheduleFaultKind::Overlap, "buffers " + quoted(program_.buffers[a].name) + " and " +
                                              quoted(program_.buffers[b].name) +
                                              " share bytes while both are live");
      }
    }
  }

  void check_accounting() {
    uint64_t height = 0;
    uint64_t sum = 0;
    std::vector<uint64_t> live(schedule_.wave_count, 0);
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      if (!schedule_.lifetimes[i]) continue;
      const uint64_t bytes = aligned(program_.buffers[i].size_bytes);
      height = std::max(height, schedule_.buffer_offsets[i] + bytes);
      sum += bytes;
      // A buffer that takes over another one's bytes is counted from the next wave on.
      const Lifetime& lifetime = *schedule_.lifetimes[i];
      const uint32_t first = lifetime.first_wave + (schedule_.in_place_of[i] ? 1 : 0);
      for (uint32_t wave = first; wave <= lifetime.last_wave && wave < live.size(); ++wave) {
        live[wave] += bytes;
      }
    }
    const uint64_t bound = live.empty() ? 0 : *std::max_element(live.begin(), live.end());
    const auto expect = [&](std::string_view what, uint64_t got, uint64_t wanted) {
      if (got == wanted) return;
      fault(ScheduleFaultKind::Accounting, std::string(what) + " is " + std::to_string(got) +
                                               ", wanted " + std::to_string(wanted));
    };
    expect("arena_bytes", schedule_.arena_bytes, height);
    expect("unplanned_bytes", schedule_.unplanned_bytes, sum);
    expect("lower_bound_bytes", schedule_.lower_bound_bytes, bound);
  }

  void find_reachable() {
    reachable_.assign(count_, std::vector<bool>(count_, false));
    conflict_.assign(count_, std::vector<bool>(count_, false));
    for (size_t position = 0; position < count_; ++position) {
      for (const uint32_t from : schedule_.edges[position]) {
        reachable_[position][from] = true;
        for (uint32_t before = 0; before < from; ++before) {
          if (reachable_[from][before]) reachable_[position][before] = true;
        }
      }
    }
  }

  // Whether two touches are of one tensor as the program means it.
  [[nodiscard]] bool same_tensor(const Touch& a, const Touch& b) const {
    if (a.access->buffer == b.access->buffer) return true;
    const Buffer& x = program_.buffers[index_of(a.access->buffer)];
    const Buffer& y = program_.buffers[index_of(b.access->buffer)];
    return (x.weight && x.weight == y.weight) || (x.state && x.state == y.state);
  }
  [[nodiscard]] bool share_bytes(const Touch& a, const Touch& b) const {
    const size_t x = index_of(a.access->buffer);
    const size_t y = index_of(b.access->buffer);
    if (in_arena(x) != in_arena(y)) return false;
    if (!in_arena(x)) return same_tensor(a, b) && a.begin < b.end && b.begin < a.end;
    const uint64_t a_offset = schedule_.buffer_offsets[x];
    const uint64_t b_offset = schedule_.buffer_offsets[y];
    return a_offset + a.begin < b_offset + b.end && b_offset + b.begin < a_offset + a.end;
  }

  void check_conflicts() {
    for (size_t i = 0; i < touches_.size(); ++i) {
      for (size_t j = i + 1; j < touches_.size(); ++j) {
        const Touch& a = touches_[i];
        const Touch& b = touches_[j];
        if (a.position == b.position || (!writes(*a.access) && !writes(*b.access))) continue;
        if (!share_bytes(a, b)) continue;
        if (same_tensor(a, b) && a.begin < b.end && b.begin < a.end && a.step > b.step) {
          fault(ScheduleFaultKind::Order, step_text(a.position) + " runs before " +
                                              step_text(b.position) +
                                              ", which comes first in the program");
        }
        if (conflict_[b.position][a.position]) continue;
        conflict_[b.position][a.position] = true;
        if (schedule_.wave[a.position] == schedule_.wave[b.position]) {
          fault(ScheduleFaultKind::SameWave,
                step_text(a.position) + " and " + step_text(b.position) +
                    " touch the same bytes in wave " + std::to_string(schedule_.wave[a.position]));
        }
        if (!reachable_[b.position][a.position]) {
          fault(ScheduleFaultKind::MissingEdge,
                step_text(b.position) + " does not wait for " + step_text(a.position));
        }
      }
    }
  }

  void check_spare_edges() {
    for (uint32_t position = 0; position < count_; ++position) {
      for (const uint32_t from : schedule_.edges[position]) {
        const bool implied =
            std::any_of(schedule_.edges[position].begin(), schedule_.edges[position].end(),
                        [&](uint32_t other) { return reachable_[other][from]; });
        if (!implied && conflict_[position][from]) continue;
        fault(ScheduleFaultKind::SpareEdge,
              step_text(position) + " need not wait for " + step_text(from));
      }
    }
  }

  const Program& program_;
  const Schedule& schedule_;
  size_t count_;
  std::vector<ScheduleFault> faults_;
  std::vector<Touch> touches_;
  std::vector<std::vector<bool>> reachable_;  // [later][earlier]
  std::vector<std::vector<bool>> conflict_;   // [later][earlier]
};

}  // namespace

std::vector<ScheduleFault> check_schedule(const Program& program, const Schedule& schedule) {
  return Checker(program, schedule).run();
}

}  // namespace rlx
