// SPDX-License-Identifier: Apache-2.0
// Edges that others imply are no edges of the graph: a node with one predecessor starts sooner than
// one with many; so do small steps in a chain. Needs no GPU.
#include <algorithm>
#include <random>

#include "runtime/cuda/cu_graph.h"
#include "tests/support/catch.h"

using namespace rlx;

namespace {

using Edges = std::vector<std::vector<uint32_t>>;

// An entry of steps with these edges and nothing else.
class EntrySketch {
 public:
  explicit EntrySketch(const Edges& edges, uint64_t bytes_moved = 0,
                       const std::vector<uint32_t>& skipped = {}) {
    std::vector<fb::Step> steps;
    std::vector<uint32_t> list;
    for (const std::vector<uint32_t>& before : edges) {
      const bool is_skipped = std::ranges::find(skipped, steps.size()) != skipped.end();
      steps.emplace_back(is_skipped ? fb::StepKind::Skip : fb::StepKind::Dispatch, 0, 1, 1, 1, 0, 0,
                         0, 0, 0, static_cast<uint32_t>(list.size()),
                         static_cast<uint32_t>(before.size()), 0, bytes_moved, 0);
      list.insert(list.end(), before.begin(), before.end());
    }
    const std::vector<uint32_t> none;
    const std::vector<flatbuffers::Offset<fb::Value>> values;
    const std::vector<fb::Relocation> relocations;
    builder_.Finish(fb::CreateEntryDirect(builder_, "main", 2, &none, &none, &values, &steps,
                                          &relocations, &list));
  }
  [[nodiscard]] Edges reduced(uint32_t step_count) const {
    return cuda::reduced_edges(*flatbuffers::GetRoot<fb::Entry>(builder_.GetBufferPointer()),
                               step_count);
  }
  [[nodiscard]] Edges chained(uint32_t step_count) const {
    return cuda::chained_edges(*flatbuffers::GetRoot<fb::Entry>(builder_.GetBufferPointer()),
                               step_count);
  }

 private:
  flatbuffers::FlatBufferBuilder builder_;
};

// `nodes` of `alternates` each, which wait for all of the node before; one of a node runs.
Edges alternates(uint32_t nodes, uint32_t alternates, std::vector<uint32_t>& skipped) {
  Edges edges;
  for (uint32_t s = 0; s < nodes * alternates; ++s) {
    std::vector<uint32_t>& before = edges.emplace_back();
    const uint32_t node = s / alternates;
    for (uint32_t i = 0; node > 0 && i < alternates; ++i)
      before.push_back((node - 1) * alternates + i);
    if (s % alternates != node % alternates) skipped.push_back(s);
  }
  return edges;
}

// Every pair (step, what it runs after).
std::vector<std::vector<bool>> closure(const Edges& edges) {
  std::vector<std::vector<bool>> after(edges.size(), std::vector<bool>(edges.size()));
  for (size_t s = 0; s < edges.size(); ++s) {
    for (const uint32_t before : edges[s]) {
      after[s][before] = true;
      for (size_t i = 0; i < edges.size(); ++i) after[s][i] = after[s][i] || after[before][i];
    }
  }
  return after;
}

}  // namespace

TEST_CASE("a chain of nodes with many alternates stays a chain") {
  constexpr uint32_t kNodes = 100;
  constexpr uint32_t kAlternates = 8;
  std::vector<uint32_t> skipped;
  const Edges edges = alternates(kNodes, kAlternates, skipped);
  const Edges chain = EntrySketch(edges, 0, skipped).reduced(kNodes * kAlternates);
  for (uint32_t node = 1; node < kNodes; ++node) {
    const uint32_t before = (node - 1) * kAlternates + (node - 1) % kAlternates;
    CHECK(chain[node * kAlternates + node % kAlternates] == std::vector<uint32_t>{before});
  }
}

TEST_CASE("implied_edges_are_left_out") {
  const EntrySketch chain({{}, {0}, {0, 1}, {0, 1, 2}, {0, 3}});
  CHECK(chain.reduced(5) == Edges{{}, {0}, {1}, {2}, {3}});
  CHECK(chain.reduced(3) == Edges{{}, {0}, {1}});
  const EntrySketch residual({{}, {0}, {1}, {0, 2}, {0, 1}, {3, 4, 0}});
  CHECK(residual.reduced(6) == Edges{{}, {0}, {1}, {2}, {1}, {4, 3}});
}

TEST_CASE("reduction_keeps_every_order_and_nothing_more") {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    Edges edges(1 + random() % 130);
    for (uint32_t s = 0; s < edges.size(); ++s) {
      for (uint32_t before = 0; before < s; ++before) {
        if (random() % 5 == 0) edges[s].push_back(before);
      }
    }
    const Edges kept = EntrySketch(edges).reduced(static_cast<uint32_t>(edges.size()));
    const auto wanted = closure(edges);
    REQUIRE(closure(kept) == wanted);
    for (size_t s = 0; s < kept.size(); ++s) {
      for (const uint32_t a : kept[s]) {
        for (const uint32_t b : kept[s]) REQUIRE_FALSE(wanted[a][b]);
      }
    }
  }
}

TEST_CASE("two_small_steps_between_the_same_ones_become_a_chain") {
  const Edges fork = {{}, {0}, {0}, {1, 2}, {0, 3}};
  CHECK(EntrySketch(fork).chained(5) == Edges{{}, {0}, {1}, {2}, {3}});
  CHECK(EntrySketch(fork, uint64_t{1} << 30).chained(5) == Edges{{}, {0}, {0}, {2, 1}, {3}});
  // One of three, and one that something else waits for, run beside the others.
  const Edges three = {{}, {0}, {0}, {0}, {1, 2, 3}};
  CHECK(EntrySketch(three).chained(5) == Edges{{}, {0}, {0}, {0}, {3, 2, 1}});
  const Edges apart = {{}, {0}, {0}, {1, 2}, {1}};
  CHECK(EntrySketch(apart).chained(5) == Edges{{}, {0}, {0}, {2, 1}, {1}});
}

TEST_CASE("what waits for a skipped step waits for what that would wait for") {
  const Edges two_ways = {{}, {0}, {1}, {2}, {3}};
  CHECK(EntrySketch(two_ways, 0, {2}).reduced(5) == Edges{{}, {0}, {1}, {1}, {3}});
  CHECK(EntrySketch(two_ways, 0, {1, 2}).reduced(5) == Edges{{}, {0}, {0}, {0}, {3}});
  CHECK(EntrySketch(two_ways, 0, {0}).reduced(5) == Edges{{}, {}, {1}, {2}, {3}});
  // It is no branch of a fork.
  const Edges fork = {{}, {0}, {0}, {1, 2}};
  CHECK(EntrySketch(fork, 0, {2}).chained(4) == Edges{{}, {0}, {0}, {1}});
}
