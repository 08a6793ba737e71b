// SPDX-License-Identifier: Apache-2.0
// Hazards by a history of the bytes last written and since read, and the transitive reduction of
// the edges found.
#include "compiler/lower/hazards.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "compiler/support/checked.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

// Numbers the spaces in order of first use.
class SpaceNumbers {
 public:
  uint32_t fresh() { return next_++; }
  uint32_t of(Segment segment, size_t index) {
    const auto [entry, added] = numbers_.try_emplace({segment, index}, next_);
    if (added) ++next_;
    return entry->second;
  }

 private:
  std::map<std::pair<Segment, size_t>, uint32_t> numbers_;
  uint32_t next_ = 0;
};

uint32_t space_of(const Buffer& buffer, SpaceNumbers& numbers) {
  if (buffer.weight) return numbers.of(Segment::Weights, index_of(*buffer.weight));
  if (buffer.state) return numbers.of(Segment::State, index_of(*buffer.state));
  return numbers.fresh();
}

// Bytes [begin, end) of a space, touched at a position.
struct Piece {
  uint32_t position;
  uint64_t begin;
  uint64_t end;
};

bool overlap(const Piece& a, const Piece& b) {
  return a.begin < b.end && b.begin < a.end;
}

// What later accesses of a space must wait for: which step wrote each byte last, and who has read
// it since. A write replaces all that it covers: whoever conflicts with the covered part conflicts
// with the write, and the write waits for it.
class SpaceHistory {
 public:
  void read(const Piece& piece, std::vector<uint32_t>& before) {
    for_each_met(piece, [&](Written& written) {
      note(written, piece, before);
      written.reads.push_back(piece);
    });
  }

  void write(const Piece& piece, std::vector<uint32_t>& before) {
    std::vector<Written> remains;
    for_each_met(piece, [&](Written& written) {
      note(written, piece, before);
      for (const Piece& reader : written.reads) {
        if (reader.position != piece.position && overlap(reader, piece))
          before.push_back(reader.position);
      }
      if (written.begin < piece.begin) remains.push_back(part(written, written.begin, piece.begin));
      if (written.end > piece.end) remains.push_back(part(written, piece.end, written.end));
    });
    const auto [first, last] = met(piece);
    pieces_.erase(first, last);
    for (Written& remaining : remains) put(std::move(remaining));
    put({.position = piece.position, .begin = piece.begin, .end = piece.end, .reads = {}});
  }

 private:
  static constexpr uint64_t kEnd = std::numeric_limits<uint64_t>::max();

  // Bytes that one step wrote, or none yet.
  struct Written {
    std::optional<uint32_t> position = {};
    uint64_t begin = 0;
    uint64_t end = kEnd;
    std::vector<Piece> reads = {};  // that meet these bytes
  };
  using Pieces = std::map<uint64_t, Written>;  // by begin; they cover the space

  [[nodiscard]] std::pair<Pieces::iterator, Pieces::iterator> met(const Piece& piece) {
    return {std::prev(pieces_.upper_bound(piece.begin)), pieces_.lower_bound(piece.end)};
  }
  template <typename Visit>
  void for_each_met(const Piece& piece, const Visit& visit) {
    const auto [first, last] = met(piece);
    for (auto place = first; place != last; ++place) visit(place->second);
  }

  static void note(const Written& written, const Piece& piece, std::vector<uint32_t>& before) {
    if (written.position && *written.position != piece.position)
      before.push_back(*written.position);
  }
  static Written part(const Written& whole, uint64_t begin, uint64_t end) {
    Written result{.position = whole.position, .begin = begin, .end = end, .reads = {}};
    for (const Piece& reader : whole.reads) {
      if (reader.begin < end && begin < reader.end) result.reads.push_back(reader);
    }
    return result;
  }
  void put(Written written) {
    const uint64_t begin = written.begin;
    pieces_.emplace(begin, std::move(written));
  }

  Pieces pieces_ = {{0, Written{}}};
};

// An access whose bytes another run may have elsewhere, or more of: what it was at the largest
// sizes and what it may be.
struct Moving {
  uint32_t position = 0;
  const Access* access = nullptr;
  uint32_t space = 0;
  bool is_moving = false;
  uint64_t begin = 0;  // of all places, in the space
  uint64_t end = 0;
};

Moving moving_of(const Access& access, uint32_t position, const BufferPlace& place,
                 const Buffer& buffer) {
  const Dim end = access.range_offset_bytes + access.range_bytes;
  const DimRange begin = access.range_offset_bytes.range();
  const auto least = static_cast<uint64_t>(std::max<int64_t>(begin.least, 0));
  const auto most = static_cast<uint64_t>(std::min(end.range().most, buffer.size_bytes.bound()));
  const bool is_at_bound = least == static_cast<uint64_t>(access.range_offset_bytes.bound()) &&
                           most == static_cast<uint64_t>(end.bound());
  return {.position = position,
          .access = &access,
          .space = place.space,
          .is_moving = !is_at_bound,
          .begin = place.offset_bytes + least,
          .end = place.offset_bytes + most};
}

// No byte is in both, whatever the sizes are.
bool are_apart(const Access& a, const Access& b) {
  return decided_at_all_sizes([&] {
    const DecidedOrders decided;
    return a.range_offset_bytes + a.range_bytes <= b.range_offset_bytes;
  });
}

// Whether the two may meet at some sizes though they do not at the largest ones, or are not seen
// to.
bool may_meet(const Moving& a, const Moving& b) {
  if (a.space != b.space || a.position == b.position) return false;
  if (a.access->mode == AccessMode::Read && b.access->mode == AccessMode::Read) return false;
  if (a.end <= b.begin || b.end <= a.begin) return false;
  if (a.access->buffer != b.access->buffer) return true;
  return !are_apart(*a.access, *b.access) && !are_apart(*b.access, *a.access);
}

// Edges between accesses of which one moves with the sizes.
void add_moving_hazards(const std::vector<Moving>& accesses, Edges& edges) {
  std::vector<const Moving*> moving;
  for (const Moving& access : accesses) {
    if (access.is_moving) moving.push_back(&access);
  }
  for (const Moving* a : moving) {
    for (const Moving& b : accesses) {
      if (!may_meet(*a, b)) continue;
      edges[std::max(a->position, b.position)].push_back(std::min(a->position, b.position));
    }
  }
}

// ---- alternates ----

// Steps that no run has both of need not wait for each other: of such an edge the later one waits
// for what the earlier one waits for, and who waits for the later one waits for both.
class Alternates {
 public:
  Alternates(const Program& program, std::span<const uint32_t> order)
      : program_(program), order_(order), others_(order.size()) {}

  void untie(Edges& edges) {
    for (uint32_t position = 0; position < edges.size(); ++position) {
      std::set<uint32_t> before;
      for (const uint32_t earlier : edges[position]) wait(position, earlier, edges, before);
      edges[position].assign(before.begin(), before.end());
    }
  }

 private:
  void wait(uint32_t position, uint32_t earlier, const Edges& edges, std::set<uint32_t>& before) {
    const Step& step = program_.steps[order_[position]];
    if (!are_exclusive(step, program_.steps[order_[earlier]])) {
      before.insert(earlier);
    } else if (others_[position].insert(earlier).second) {
      for (const uint32_t before_it : edges[earlier]) wait(position, before_it, edges, before);
    }
    for (const uint32_t other : others_[earlier]) {
      if (!before.contains(other) && !others_[position].contains(other))
        wait(position, other, edges, before);
    }
  }

  const Program& program_;
  std::span<const uint32_t> order_;
  // Of each position: earlier ones that whoever waits for it waits for too.
  std::vector<std::set<uint32_t>> others_;
};

void sort_unique(std::vector<uint32_t>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

}  // namespace

std::vector<BufferPlace> logical_places(const Program& program) {
  SpaceNumbers numbers;
  std::vector<BufferPlace> places;
  for (const Buffer& buffer : program.buffers)
    places.push_back({.space = space_of(buffer, numbers)});
  return places;
}

std::vector<BufferPlace> physical_places(const Program& program,
                                         std::span<const uint64_t> buffer_offsets) {
  SpaceNumbers numbers;
  std::vector<BufferPlace> places;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    if (buffer.segment == Segment::Arena) {
      places.push_back({.space = numbers.of(Segment::Arena, 0), .offset_bytes = buffer_offsets[i]});
    } else {
      places.push_back({.space = space_of(buffer, numbers)});
    }
  }
  return places;
}

Edges find_hazards(const Program& program, std::span<const uint32_t> order,
                   std::span<const BufferPlace> places, std::span<const StepRegion> regions) {
  uint32_t space_count = 0;
  for (const BufferPlace& place : places) space_count = std::max(space_count, place.space + 1);
  std::vector<SpaceHistory> histories(space_count);

  Edges edges(order.size());
  std::set<const StepRegion*> has_begun;
  std::vector<Moving> accesses;
  for (uint32_t position = 0; position < order.size(); ++position) {
    const Step& step = program.steps[order[position]];
    // Before the first trip the word is read.
    const auto begun = std::find_if(regions.begin(), regions.end(), [&](const StepRegion& region) {
      return region.word && !has_begun.contains(&region) && region.holds(order[position]);
    });
    if (begun != regions.end()) {
      has_begun.insert(&*begun);
      const BufferPlace& place = places[index_of(*begun->word)];
      histories[place.space].read({.position = position,
                                   .begin = place.offset_bytes,
                                   .end = place.offset_bytes + sizeof(uint32_t)},
                                  edges[position]);
    }
    for (const Access& access : step.accesses) {
      const Buffer& buffer = program.buffer(access.buffer);
      RLX_CHECK(access.range_offset_bytes + access.range_bytes <= buffer.size_bytes,
                "step of node \"" + step.node + "\" accesses " + to_string(access.range_bytes) +
                    " bytes at " + to_string(access.range_offset_bytes) + " of buffer \"" +
                    buffer.name + "\" of " + to_string(buffer.size_bytes) + " bytes");
      if (access.range_bytes == 0) continue;
      const BufferPlace& place = places[index_of(access.buffer)];
      accesses.push_back(moving_of(access, position, place, buffer));
      // At the largest sizes.
      const uint64_t begin =
          place.offset_bytes + static_cast<uint64_t>(access.range_offset_bytes.bound());
      const Piece piece{.position = position,
                        .begin = begin,
                        .end = begin + static_cast<uint64_t>(access.range_bytes.bound())};
      if (access.mode == AccessMode::Read) {
        histories[place.space].read(piece, edges[position]);
      } else {
        histories[place.space].write(piece, edges[position]);
      }
    }
  }
  add_moving_hazards(accesses, edges);
  for (std::vector<uint32_t>& before : edges) sort_unique(before);
  Alternates(program, order).untie(edges);
  return edges;
}

void reduce_transitively(Edges& edges) {
  // Reachability from a block of positions at a time keeps the memory linear in the number of
  // positions.
  constexpr uint32_t kBlockWords = 64;
  constexpr uint32_t kBlock = kBlockWords * 64;
  using Words = std::array<uint64_t, kBlockWords>;
  const uint32_t count = narrow<uint32_t>(edges.size());
  Edges kept(edges.size());
  for (uint32_t block = 0; block < count; block += kBlock) {
    std::vector<Words> reached(
        count - block);  // from which positions of the block each later one is reached
    for (uint32_t position = block; position < count; ++position) {
      Words through{};  // reached by way of an edge's far end
      for (const uint32_t from : edges[position]) {
        if (from < block) continue;
        for (uint32_t word = 0; word < kBlockWords; ++word)
          through[word] |= reached[from - block][word];
      }
      Words& all = reached[position - block];
      all = through;
      for (const uint32_t from : edges[position]) {
        if (from < block || from - block >= kBlock) continue;
        const uint32_t word = (from - block) / 64;
        const uint64_t bit = uint64_t{1} << ((from - block) % 64);
        if ((through[word] & bit) == 0) kept[position].push_back(from);
        all[word] |= bit;
      }
    }
  }
  edges = std::move(kept);
}

}  // namespace rlx
