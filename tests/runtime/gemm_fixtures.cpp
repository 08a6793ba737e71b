// SPDX-License-Identifier: Apache-2.0
// Plans that break the rules of library products and alternatives.
#include "schema/tensor_map.h"
#include "tests/runtime/verify_fixture.h"

namespace rlx::test {
namespace {

Fixture gemm_fixture(VerifyRule rule, std::string what,
                     std::function<void(fb::LibraryGemmT&)> edit) {
  return {.rule = rule,
          .what = std::move(what),
          .edit = [edit = std::move(edit)](PlanSpec& spec) { edit(spec.entries[0].gemms[0]); },
          .base = gemm_plan};
}

Fixture entry_fixture(VerifyRule rule, std::string what, std::function<void(SpecEntry&)> edit,
                      PlanSpec (*base)() = gemm_plan) {
  return {.rule = rule,
          .what = std::move(what),
          .edit = [edit = std::move(edit)](PlanSpec& spec) { edit(spec.entries[0]); },
          .base = base};
}

SpecRelocation& operand(SpecEntry& entry, uint32_t position) {
  return entry.steps[0].relocations[position / 8];
}

std::vector<Fixture> record_fixtures() {
  using Rule = VerifyRule;
  return {
      gemm_fixture(Rule::EnumRange, "a dtype 99", [](fb::LibraryGemmT& g) { g.b_dtype = 99; }),
      gemm_fixture(Rule::EnumRange, "an epilogue 6",
                   [](fb::LibraryGemmT& g) { g.epilogue = static_cast<fb::GemmEpilogue>(6); }),
      gemm_fixture(Rule::GemmSize, "no depth", [](fb::LibraryGemmT& g) { g.k = 0; }),
      gemm_fixture(Rule::GemmSize, "2^31 columns",
                   [](fb::LibraryGemmT& g) { g.n = uint64_t{1} << 31; }),
      gemm_fixture(Rule::GemmForm, "f16 times bf16", [](fb::LibraryGemmT& g) { g.b_dtype = 2; }),
      gemm_fixture(Rule::GemmForm, "f16 to bf16", [](fb::LibraryGemmT& g) { g.y_dtype = 2; }),
      gemm_fixture(Rule::GemmForm, "i32", [](fb::LibraryGemmT& g) { g.a_dtype = g.b_dtype = 7; }),
      gemm_fixture(Rule::GemmForm, "tf32 of f16",
                   [](fb::LibraryGemmT& g) { g.compute = fb::GemmCompute::Tf32; }),
      gemm_fixture(Rule::GemmForm, "relu behind a residual",
                   [](fb::LibraryGemmT& g) { g.epilogue = fb::GemmEpilogue::BiasRelu; }),
      gemm_fixture(Rule::GemmPitch, "rows of a that overlap",
                   [](fb::LibraryGemmT& g) { g.a_pitch = 7; }),
      gemm_fixture(Rule::GemmPitch, "a pitch of 2^31",
                   [](fb::LibraryGemmT& g) { g.b_pitch = uint64_t{1} << 31; }),
      gemm_fixture(Rule::GemmPitch, "batch entries of y that overlap",
                   [](fb::LibraryGemmT& g) {
                     g.batch = 2;
                     g.m = 8;
                     g.y_batch_stride = 255;
                   }),
      gemm_fixture(Rule::GemmTuning, "an algorithm of 63 bytes",
                   [](fb::LibraryGemmT& g) {
                     g.algorithm.assign(63, 1);
                     g.tuned_device = g.tuned_driver = g.tuned_library = "x";
                   }),
      gemm_fixture(Rule::GemmTuning, "an algorithm for nobody knows what",
                   [](fb::LibraryGemmT& g) {
                     g.algorithm.assign(64, 1);
                     g.tuned_device = g.tuned_driver = "x";
                   }),
      gemm_fixture(Rule::GemmTuning, "a device without an algorithm",
                   [](fb::LibraryGemmT& g) { g.tuned_device = "x"; }),
  };
}

std::vector<Fixture> product_fixtures() {
  using Rule = VerifyRule;
  return {
      entry_fixture(Rule::EntryTuning, "a device without a driver",
                    [](SpecEntry& e) { e.tuned_device = "x"; }),
      entry_fixture(Rule::EntryTuning, "a driver of 257 bytes",
                    [](SpecEntry& e) {
                      e.tuned_device = "x";
                      e.tuned_driver.assign(257, 'x');
                    }),
      entry_fixture(Rule::GemmIndex, "a gemm that is not there",
                    [](SpecEntry& e) { e.steps[0].kernel = 1; }),
      {.rule = Rule::GemmTarget,
       .what = "a library product for Vulkan too",
       .edit =
           [](PlanSpec& spec) {
             spec.vulkan = small_plan().vulkan;
             spec.entries[0].targets = 3;
           },
       .base = gemm_plan},
      {.rule = Rule::ParamsBytes,
       .what = "params for a library product",
       .edit =
           [](PlanSpec& spec) {
             spec.params.resize(48);
             spec.entries[0].steps[0].params_bytes = 48;
           },
       .base = gemm_plan},
      gemm_fixture(Rule::GemmOperands, "a bias that the epilogue does not add",
                   [](fb::LibraryGemmT& g) { g.epilogue = fb::GemmEpilogue::None; }),
      gemm_fixture(Rule::GemmOperands, "a residual that is not added",
                   [](fb::LibraryGemmT& g) { g.has_residual = false; }),
      gemm_fixture(Rule::GemmOperands, "a workspace that is not wanted",
                   [](fb::LibraryGemmT& g) { g.workspace_bytes = 0; }),
      entry_fixture(
          Rule::GemmOperands, "no b",
          [](SpecEntry& e) { e.steps[0].relocations.erase(e.steps[0].relocations.begin() + 1); }),
      entry_fixture(Rule::GemmOperands, "two operands in one place",
                    [](SpecEntry& e) { operand(e, 24).position = 16; }),
      entry_fixture(Rule::GemmOperands, "an operand in no place",
                    [](SpecEntry& e) { operand(e, 16).position = 12; }),
      entry_fixture(Rule::GemmOperands, "a y that is read",
                    [](SpecEntry& e) { operand(e, 32).mode = fb::AccessMode::Read; }),
      entry_fixture(Rule::RelocationRange, "an operand past its value",
                    [](SpecEntry& e) { operand(e, 0).length_bytes = 257; }),
      entry_fixture(Rule::GemmRange, "the last row of a left out",
                    [](SpecEntry& e) { operand(e, 0).length_bytes = 254; }),
      gemm_fixture(Rule::GemmRange, "a larger pitch than the value has room for",
                   [](fb::LibraryGemmT& g) { g.b_pitch = 40; }),
      gemm_fixture(Rule::GemmRange, "another batch entry than there is",
                   [](fb::LibraryGemmT& g) {
                     g.batch = 2;
                     g.m = 8;
                     g.a_batch_stride = 72;
                     g.y_batch_stride = g.residual_batch_stride = 256;
                   }),
      entry_fixture(Rule::GemmRange, "half of the workspace",
                    [](SpecEntry& e) { operand(e, 40).length_bytes = 256; }),
      entry_fixture(Rule::RelocationAlignment, "a bias at byte 8",
                    [](SpecEntry& e) {
                      e.values[2].dims = {36};
                      e.values[2].size_bytes = 72;
                      operand(e, 16).offset_bytes = 8;
                    }),
      entry_fixture(Rule::GemmOverlap, "a residual of another layout on y",
                    [](SpecEntry& e) {
                      e.gemms[0].m = 15;
                      operand(e, 24) = operand(e, 32);
                      operand(e, 24).position = 24;
                      operand(e, 24).mode = fb::AccessMode::Read;
                      operand(e, 24).offset_bytes = 64;
                      operand(e, 24).length_bytes = 960;
                      operand(e, 32).length_bytes = 960;
                    }),
  };
}

std::vector<Fixture> alternative_fixtures() {
  using Rule = VerifyRule;
  return {
      entry_fixture(
          Rule::AlternativeStep, "for a step that is not there",
          [](SpecEntry& e) { e.alternatives[0].step = 1; }, alternative_plan),
      entry_fixture(
          Rule::AlternativeStep, "two for one step",
          [](SpecEntry& e) { e.alternatives.push_back(e.alternatives[0]); }, alternative_plan),
      entry_fixture(
          Rule::AlternativeStep, "a fill",
          [](SpecEntry& e) { e.alternatives[0].other.kind = fb::StepKind::Fill; },
          alternative_plan),
      entry_fixture(
          Rule::GemmIndex, "a gemm that is not there",
          [](SpecEntry& e) { e.alternatives[0].other.kernel = 2; }, alternative_plan),
      entry_fixture(
          Rule::RelocationList, "operands that are not there",
          [](SpecEntry& e) { e.alternatives[0].other.relocation_first = 8; }, alternative_plan),
      entry_fixture(
          Rule::GemmRange, "the last row of a left out",
          [](SpecEntry& e) { e.alternatives[0].other.relocations[0].length_bytes = 254; },
          alternative_plan),
      entry_fixture(
          Rule::AlternativePlace, "another wave",
          [](SpecEntry& e) { e.alternatives[0].other.wave = 1; }, alternative_plan),
      entry_fixture(
          Rule::AlternativePlace, "another range of the residual",
          [](SpecEntry& e) {
            e.gemms[0].m = e.gemms[1].m = 15;
            e.alternatives[0].other.relocations[3].length_bytes = 960;
          },
          alternative_plan),
  };
}

Fixture map_fixture(VerifyRule rule, std::string what, std::function<void(fb::TensorMapT&)> edit) {
  return {.rule = rule,
          .what = std::move(what),
          .edit = [edit = std::move(edit)](PlanSpec& spec) { edit(spec.kernels[0].maps[0]); },
          .base = map_plan};
}

Fixture window_fixture(std::string what, std::function<void(fb::TensorMapT&)> edit) {
  Fixture fixture =
      map_fixture(VerifyRule::TensorMapForm, "a window: " + std::move(what), std::move(edit));
  fixture.base = window_plan;
  return fixture;
}

std::vector<Fixture> map_fixtures() {
  using Rule = VerifyRule;
  using Map = fb::TensorMapT;
  return {
      map_fixture(Rule::TensorMapForm, "of no pointer", [](Map& m) { m.position = 8; }),
      map_fixture(Rule::TensorMapForm, "of blocks", [](Map& m) { m.dtype = 14; }),
      map_fixture(Rule::TensorMapForm, "of rank 0", [](Map& m) { m.dims = {}; }),
      map_fixture(Rule::TensorMapForm, "a dim of 0", [](Map& m) { m.dims[0] = 0; }),
      map_fixture(Rule::TensorMapForm, "lines of the range, and no other dim",
                  [](Map& m) {
                    m.dims = {kLinesOfRange};
                    m.strides = {};
                    m.box = {64};
                  }),
      {.rule = Rule::TensorMapForm,
       .what = "behind the begin of its range",
       .edit =
           [](PlanSpec& spec) {
             spec.kernels[0].addends = {{0, 16}};
           },
       .base = map_plan},
      {.rule = Rule::TensorMapReach,
       .what = "lines of a range that may hold less than one",
       .edit =
           [](PlanSpec& spec) {
             spec.kernels[0].maps[0].dims[1] = kLinesOfRange;
             spec.kernels[0].accesses[0].min_bytes = 143;
           },
       .base = map_plan},
      map_fixture(Rule::TensorMapForm, "a box of 257", [](Map& m) { m.box[1] = 257; }),
      map_fixture(Rule::TensorMapForm, "a box without a dim", [](Map& m) { m.box = {64}; }),
      map_fixture(Rule::TensorMapForm, "a stride of 24", [](Map& m) { m.strides[0] = 24; }),
      map_fixture(Rule::TensorMapForm, "a swizzle of 48", [](Map& m) { m.swizzle_bytes = 48; }),
      map_fixture(Rule::TensorMapForm, "a row wider than the swizzle",
                  [](Map& m) { m.swizzle_bytes = 64; }),
      {.rule = Rule::TensorMapForm,
       .what = "an address of 8",
       .edit = [](PlanSpec& spec) { spec.kernels[0].accesses[0].alignment = 8; },
       .base = map_plan},
      {.rule = Rule::TensorMapForm,
       .what = "nine maps",
       .edit = [](PlanSpec& spec) { spec.kernels[0].maps.resize(9, spec.kernels[0].maps[0]); },
       .base = map_plan},
      window_fixture("three dims",
                     [](Map& m) {
                       m.dims = {8, 3, 6};
                       m.strides = {16, 48};
                     }),
      window_fixture("a box per dim",
                     [](Map& m) {
                       m.box = {8, 4, 1, 1};
                     }),
      window_fixture("1025 pixels", [](Map& m) { m.box[1] = 1025; }),
      window_fixture("no pixels", [](Map& m) { m.box[1] = 0; }),
      window_fixture("a corner of -129",
                     [](Map& m) { *m.window = fb::PixelWindow(-129, -1, 0, 0, 1, 1); }),
      window_fixture("a corner of 128",
                     [](Map& m) { *m.window = fb::PixelWindow(-1, -1, 0, 128, 1, 1); }),
      window_fixture("a stride of 0",
                     [](Map& m) { *m.window = fb::PixelWindow(-1, -1, 0, 0, 0, 1); }),
      window_fixture("a stride of 9",
                     [](Map& m) { *m.window = fb::PixelWindow(-1, -1, 0, 0, 1, 9); }),
      window_fixture("no place for a window",
                     [](Map& m) { *m.window = fb::PixelWindow(0, 0, -3, 0, 1, 1); }),
      {.rule = Rule::TensorMapReach,
       .what = "one image too many",
       .edit = [](PlanSpec& spec) { spec.kernels[0].maps[0].dims[3] = 17; },
       .base = window_plan},
      map_fixture(Rule::TensorMapReach, "one row too many", [](Map& m) { m.dims[1] = 17; }),
      map_fixture(Rule::TensorMapReach, "a reach that wraps",
                  [](Map& m) {
                    m.dims[1] = uint64_t{1} << 32;
                    m.strides[0] = uint64_t{1} << 36;
                  }),
  };
}

}  // namespace

PlanSpec map_plan() {
  PlanSpec spec = gemm_plan();
  fb::TensorMapT map;
  map.dtype = 1;
  map.dims = {72, 16};
  map.strides = {160};
  map.box = {64, 8};
  map.swizzle_bytes = 128;
  // Nothing runs the kernel, so it needs no code.
  spec.kernels.push_back({.name = "region",
                          .params_bytes = 16,
                          .accesses = {{.position = 0, .min_bytes = 15 * 160 + 144}},
                          .variants = {},
                          .maps = {map}});
  return spec;
}

PlanSpec window_plan() {
  PlanSpec spec = map_plan();
  fb::TensorMapT& map = spec.kernels[0].maps[0];
  map.dims = {8, 3, 3, 16};
  map.strides = {16, 48, 160};
  map.box = {8, 4};
  map.swizzle_bytes = 0;
  map.window = std::make_unique<fb::PixelWindow>(-1, -1, -1, -1, 1, 2);
  return spec;
}

PlanSpec sized_map_plan() {
  PlanSpec spec = map_plan();
  SpecKernel& kernel = spec.kernels[0];
  kernel.sizes = {{8, 0, 0, fb::SizeOp::Constant}};
  fb::TensorMapT& map = kernel.maps[0];
  map.dims = {72, 0, 2};
  map.strides = {160, 0};
  map.box = {64, 8, 1};
  map.sizes = {fb::MapSize(1, 0)};
  return spec;
}

PlanSpec alternative_plan() {
  PlanSpec spec = gemm_plan();
  SpecEntry& main = spec.entries[0];
  fb::LibraryGemmT frugal = main.gemms[0];
  frugal.workspace_bytes = 0;
  main.gemms.push_back(frugal);
  SpecStep other = main.steps[0];
  other.kernel = 1;
  other.relocations.pop_back();
  main.alternatives.push_back({.step = 0, .other = std::move(other)});
  return spec;
}

std::vector<Fixture> gemm_fixtures() {
  std::vector<Fixture> all = record_fixtures();
  for (const std::vector<Fixture>& list :
       {product_fixtures(), alternative_fixtures(), map_fixtures()})
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace rlx::test
