// SPDX-License-Identifier: Apache-2.0
// Programs with the shapes of real models reach the lower bound of the arena.
#include <functional>

#include "tests/lower/test_program.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

// Builds chains of steps; every step writes one new value.
class Model {
 public:
  TestProgram t;

  BufferId input(uint64_t bytes) { return t.io("input", bytes); }
  BufferId op(const std::string& name, const std::vector<BufferId>& reads, uint64_t bytes) {
    const std::string unique = name + std::to_string(t.program.steps.size());
    const BufferId out = t.arena(unique, bytes);
    t.step(unique, reads, {out});
    return out;
  }
  // The output may overwrite the first input.
  BufferId over(const std::string& name, const std::vector<BufferId>& reads) {
    const BufferId out = op(name, reads, t.program.buffer(reads.front()).size_bytes);
    t.program.steps.back().in_place_input = reads.front();
    return out;
  }
  Program finish(BufferId last) {
    const BufferId out = t.io("output", t.program.buffer(last).size_bytes);
    t.step("result", {last}, {out});
    return t.program;
  }
};

// A BERT-style encoder; unfused, with every intermediate value of attention and of the feed-forward
// part.
Program encoder(uint64_t batch, uint64_t sequence, uint64_t hidden, uint64_t heads,
                uint64_t layers) {
  Model m;
  const uint64_t rows = batch * sequence;
  const uint64_t wide = rows * hidden * 4;
  const uint64_t scores = batch * heads * sequence * sequence * 4;
  BufferId x = m.op("embed", {m.input(rows * 4)}, wide);
  x = m.op("norm", {x}, wide);
  for (uint64_t layer = 0; layer < layers; ++layer) {
    const BufferId q = m.op("q", {x}, wide), k = m.op("k", {x}, wide), v = m.op("v", {x}, wide);
    BufferId p = m.op("scores", {q, k}, scores);
    p = m.over("softmax", {p});
    BufferId a = m.op("context", {p, v}, wide);
    a = m.op("project", {a}, wide);
    a = m.over("add", {a, x});
    x = m.op("norm", {a}, wide);
    BufferId f = m.op("up", {x}, 4 * wide);
    f = m.over("gelu", {f});
    f = m.op("down", {f}, wide);
    f = m.over("add", {f, x});
    x = m.op("norm", {f}, wide);
  }
  return m.finish(x);
}

// ResNet-50 at 224 x 224: bottlenecks of three convolutions and a shortcut.
Program residual_network(uint64_t batch, bool in_place) {
  Model m;
  const uint64_t unit = batch * 4;
  BufferId x = m.op("stem", {m.input(unit * 3 * 224 * 224)}, unit * 64 * 112 * 112);
  x = m.op("pool", {x}, unit * 64 * 56 * 56);
  const uint64_t blocks[] = {3, 4, 6, 3};
  uint64_t side = 56;
  for (uint64_t stage = 0; stage < 4; ++stage) {
    const uint64_t width = uint64_t{64} << stage;
    for (uint64_t block = 0; block < blocks[stage]; ++block) {
      const uint64_t before = side;
      if (stage > 0 && block == 0) side /= 2;
      BufferId y = m.op("conv1", {x}, unit * width * before * before);
      y = m.op("conv3", {y}, unit * width * side * side);
      y = m.op("conv1", {y}, unit * width * 4 * side * side);
      const BufferId shortcut =
          block == 0 ? m.op("shortcut", {x}, unit * width * 4 * side * side) : x;
      x = in_place ? m.over("add", {y, shortcut})
                   : m.op("add", {y, shortcut}, unit * width * 4 * side * side);
    }
  }
  return m.finish(m.op("mean", {x}, unit * 2048));
}

// DenseNet-121, every layer reading the concatenation of all earlier ones; as copies, or written in
// place into one buffer.
Program dense_network(bool sub_slots) {
  Model m;
  const uint64_t growth = 32;
  uint64_t side = 56;
  uint64_t channels = 64;
  BufferId x = m.op("stem", {m.input(3 * 224 * 224 * 4)}, channels * side * side * 4);
  for (const uint64_t layers : {6, 12, 24, 16}) {
    const uint64_t plane = side * side * 4;
    if (sub_slots) {
      const uint64_t all = (channels + layers * growth) * plane;
      const BufferId block = m.t.arena("block" + std::to_string(layers), all);
      m.t.step("enter", {m.t.whole(x, AccessMode::Read),
                         TestProgram::part(block, 0, channels * plane, AccessMode::Write)});
      for (uint64_t layer = 0; layer < layers; ++layer, channels += growth) {
        const std::string name = "bottleneck" + std::to_string(m.t.program.steps.size());
        const BufferId y = m.t.arena(name, 4 * growth * plane);
        m.t.step(name, {TestProgram::part(block, 0, channels * plane, AccessMode::Read),
                        m.t.whole(y, AccessMode::Write)});
        m.t.step(name + ".conv3",
                 {m.t.whole(y, AccessMode::Read),
                  TestProgram::part(block, channels * plane, growth * plane, AccessMode::Write)});
      }
      x = block;
    } else {
      for (uint64_t layer = 0; layer < layers; ++layer, channels += growth) {
        BufferId y = m.op("norm", {x}, channels * plane);
        y = m.op("bottleneck", {y}, 4 * growth * plane);
        y = m.op("conv3", {y}, growth * plane);
        x = m.op("concat", {x, y}, (channels + growth) * plane);
      }
    }
    channels /= 2;
    x = m.op("transition", {x}, channels * plane);
    side /= 2;
    x = m.op("pool", {x}, channels * side * side * 4);
  }
  return m.finish(x);
}

// A diffusion U-Net: residual blocks on the way down, their outputs kept for the way up.
Program u_network(uint64_t batch) {
  Model m;
  const uint64_t unit = batch * 2;
  const uint64_t widths[] = {320, 640, 1280, 1280};
  std::vector<BufferId> skips;
  std::vector<uint64_t> skip_bytes;
  uint64_t side = 64;
  BufferId x = m.op("stem", {m.input(unit * 4 * side * side)}, unit * 320 * side * side);
  const auto block = [&](const std::vector<BufferId>& reads, uint64_t bytes) {
    BufferId y = m.op("norm", {reads.front()}, bytes);
    y = m.op("conv", {y}, bytes);
    y = m.over("silu", {y});
    y = m.op("conv", {y}, bytes);
    y = m.over("add", {y, reads.front()});
    const BufferId q = m.op("q", {y}, bytes), k = m.op("k", {y}, bytes), v = m.op("v", {y}, bytes);
    BufferId a = m.op("attention", {q, k, v}, bytes);
    a = m.op("project", {a}, bytes);
    return m.over("add", {a, y});
  };
  for (int level = 0; level < 4; ++level) {
    const uint64_t bytes = unit * widths[level] * side * side;
    for (int i = 0; i < 2; ++i) {
      x = block({m.op("widen", {x}, bytes)}, bytes);
      skips.push_back(x);
      skip_bytes.push_back(bytes);
    }
    if (level < 3) {
      side /= 2;
      x = m.op("down", {x}, unit * widths[level] * side * side);
    }
  }
  for (int level = 3; level >= 0; --level) {
    const uint64_t bytes = unit * widths[level] * side * side;
    for (int i = 0; i < 2; ++i) {
      const BufferId joined = m.op("concat", {x, skips.back()}, bytes + skip_bytes.back());
      skips.pop_back();
      skip_bytes.pop_back();
      x = block({m.op("narrow", {joined}, bytes)}, bytes);
    }
    if (level > 0) {
      side *= 2;
      x = m.op("up", {x}, unit * widths[level] * side * side);
    }
  }
  return m.finish(x);
}

TEST_CASE("model_shaped_programs_reach_the_lower_bound") {
  struct Case {
    const char* name;
    std::function<Program()> make;
  };
  const Case cases[] = {
      {"MiniLM batch 1", [] { return encoder(1, 128, 384, 12, 6); }},
      {"BERT-base batch 32", [] { return encoder(32, 128, 768, 12, 12); }},
      {"ResNet-50 batch 32", [] { return residual_network(32, false); }},
      {"ResNet-50 batch 32 in place", [] { return residual_network(32, true); }},
      {"DenseNet-121 with copies", [] { return dense_network(false); }},
      {"DenseNet-121 with sub-slots", [] { return dense_network(true); }},
      {"U-Net batch 2", [] { return u_network(2); }},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    const Program program = c.make();
    const Schedule result = schedule(program);
    CHECK(faults_of(program, result) == "");
    CHECK(result.arena_bytes == result.lower_bound_bytes);
    CHECK(result.unplanned_bytes > 2 * result.arena_bytes);
  }
}

TEST_CASE("in_place_lowers_the_arena_of_a_residual_network") {
  const Schedule apart = schedule(residual_network(32, false));
  const Schedule shared = schedule(residual_network(32, true));
  CHECK(shared.arena_bytes < apart.arena_bytes);
  CHECK(shared.wave_count == apart.wave_count);
}

}  // namespace
}  // namespace rlx::test
