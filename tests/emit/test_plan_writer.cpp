// SPDX-License-Identifier: Apache-2.0
// The plan writer: layout, deduplication, determinism, atomic files. Every plan here also passed
// the runtime's verifier, which the writer calls.
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "compiler/emit/debug_section.h"
#include "compiler/emit/plan_writer.h"
#include "runtime/plan/plan_view.h"
#include "schema/debug_generated.h"
#include "tests/emit/copy_program.h"
#include "tests/support/catch.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const TensorType kVector{.dtype = DType::f32, .shape = {100}};

WeightId add_weight(Module& module, const std::string& name, float first) {
  auto values = std::make_shared<std::vector<float>>(100, 1.0f);
  values->front() = first;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(*values));
  return module.add_weight(
      {.name = name, .type = kVector, .data = HostBytes{.owner = values, .bytes = bytes}});
}

// x -> h -> y, and weights a, b, c of which a and c are equal, converted into further outputs.
void build(SmallPlan& plan) {
  plan.module.name = "small";
  const WeightId a = add_weight(plan.module, "a", 1);
  const WeightId b = add_weight(plan.module, "b", 2);
  const WeightId c = add_weight(plan.module, "c", 1);
  add_weight(plan.module, "unused", 3);
  plan.module.symbols.push_back(
      {.name = "n", .minimum = 1, .maximum = 200, .multiple_of = 1, .bound = 100});
  Program& program = plan.programs.emplace_back(conversion_program(kVector, kVector));
  program.steps.clear();
  const TensorRef x{
      .buffer = program.inputs[0], .offset_bytes = 0, .type = kVector, .strides = {1}};
  const TensorRef y{
      .buffer = program.outputs[0], .offset_bytes = 0, .type = kVector, .strides = {1}};
  const TensorRef h = add_buffer(program, "h", kVector, Segment::Arena);
  add_buffer(program, "never", kVector, Segment::Arena);
  add_conversion(program, x, h, "first");
  add_conversion(program, h, y, "second");
  for (const WeightId weight : {a, b, c}) {
    const std::string name = plan.module.weight(weight).name;
    const TensorRef w = add_buffer(program, name, kVector, Segment::Weights, weight);
    const TensorRef out = add_buffer(program, "out." + name, kVector, Segment::Io);
    program.buffers.back().output_index = static_cast<uint32_t>(program.outputs.size());
    program.outputs.push_back(out.buffer);
    add_conversion(program, w, out, "copy." + name);
  }
  plan.finish(kernel_text(convert_body()));
  plan.content.pass_log = {"remove_dead: 1 node"};
}

std::shared_ptr<const PlanView> open(const std::vector<std::byte>& bytes) {
  std::shared_ptr<const PlanView> view;
  const Status status =
      PlanView::open_memory(bytes, {.check_weights = true, .copy_memory = true}, view);
  INFO(status.message());
  REQUIRE(status.ok());
  return view;
}

// What the verifier says of a plan that it must refuse.
std::string refusal(const PlanContent& content) {
  try {
    plan_bytes(content);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "accepted";
}

std::vector<std::byte> read_bytes(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  std::vector<std::byte> bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

}  // namespace

TEST_CASE("a plan holds what its program says") {
  SmallPlan small;
  build(small);
  const auto view = open(plan_bytes(small.content));
  CHECK(view->name() == "small");
  const fb::Entry& entry = view->entry(0);
  CHECK(entry.inputs()->size() == 1);
  CHECK(entry.outputs()->size() == 4);
  CHECK(entry.values()->size() == 2 + 1 + 6);  // "never" is no value
  CHECK(entry.steps()->size() == 5);
  CHECK(entry.arena_bytes() == small.schedules[0].arena_bytes);
  CHECK(view->index().kernels()->size() == 1);
  CHECK(PlanView::text(view->index().kernels()->Get(0)->specialization()) ==
        "RLX_COUNT=100 RLX_X=f32 RLX_Y=f32 block 64x1x1");
  CHECK(view->index().symbols()->Get(0)->bound() == 100u);
  CHECK(PlanView::text(view->debug()->passes()->Get(0)) == "remove_dead: 1 node");
  CHECK(view->header().vulkan.max_grid[0] == 2);
  CHECK(view->header().vulkan.max_params_bytes == sizeof(CopyParams));
  CHECK(view->header().vulkan.max_workgroup_invocations == 64);
  CHECK(std::string(view->header().producer) == "rlxc test");
}

TEST_CASE("params and code of equal steps are stored once") {
  SmallPlan small;
  build(small);
  const auto view = open(plan_bytes(small.content));
  for (const fb::Step* step : *view->entry(0).steps()) CHECK(step->params_offset() == 0);
  CHECK(view->header().host_bytes > 0);
}

TEST_CASE("equal weights share bytes and unused ones are left out") {
  SmallPlan small;
  build(small);
  const auto view = open(plan_bytes(small.content));
  const auto& weights = *view->index().weights();
  REQUIRE(weights.size() == 3);
  CHECK(weights.Get(0)->offset_bytes() == weights.Get(2)->offset_bytes());
  CHECK(weights.Get(0)->offset_bytes() != weights.Get(1)->offset_bytes());
  CHECK(weights.Get(1)->offset_bytes() % kArenaAlignmentBytes == 0);
  CHECK(view->weights_section_bytes() == 512 + 400);
}

TEST_CASE("a derived name beyond the format's limit is cut at a character and stays distinct") {
  SmallPlan small;
  build(small);
  std::string stem(250, 'n');
  for (int i = 0; i < 10; ++i) stem += "\xC3\xA9";
  small.module.weights[0].name = stem + "a";
  small.module.weights[1].name = stem + "b";
  for (Buffer& buffer : small.programs[0].buffers) {
    if (buffer.name == "h") buffer.name = stem;
  }
  const auto view = open(plan_bytes(small.content));
  CHECK(view->index().weights()->Get(0)->name()->size() <= 256);
}

TEST_CASE("the debug section can be left out") {
  SmallPlan small;
  build(small);
  small.content.debug_section = false;
  CHECK(open(plan_bytes(small.content))->debug() == nullptr);
}

TEST_CASE("a language model's text travels in a section of its own, read when asked for") {
  SmallPlan small;
  build(small);
  CHECK(open(plan_bytes(small.content))->text_section_bytes() == 0);
  const std::string said = "tokens and templates";
  const std::span<const std::byte> said_bytes = std::as_bytes(std::span(said));
  small.module.text.assign(said_bytes.begin(), said_bytes.end());
  std::vector<std::byte> plan = plan_bytes(small.content);
  std::vector<std::byte> read(said.size());
  {
    const auto view = open(plan);
    REQUIRE(view->text_section_bytes() == said.size());
    CHECK(view->read_text(read).ok());
    CHECK(read == small.module.text);
    CHECK(view->read_text(std::span(read).first(3)).code() == RLX_INVALID_ARGUMENT);
  }
  const auto place = std::search(plan.begin(), plan.end(), read.begin(), read.end());
  REQUIRE(place != plan.end());
  *place ^= std::byte{1};
  CHECK(open(plan)->read_text(read).code() == RLX_INVALID_PLAN);
}

TEST_CASE("generated weights lie behind the section and belong to init") {
  SmallPlan small;
  const WeightId inline_weight = add_weight(small.module, "inline", 5);
  const WeightId splat =
      small.module.add_weight({.name = "splat", .type = kVector, .data = SplatData{.value = 1}});
  Program& main = small.programs.emplace_back(conversion_program(kVector, kVector));
  main.steps.clear();
  const TensorRef y{.buffer = main.outputs[0], .offset_bytes = 0, .type = kVector, .strides = {1}};
  add_conversion(main, add_buffer(main, "splat", kVector, Segment::Weights, splat), y, "use");
  Program& init = small.programs.emplace_back();
  init.entry = "init";
  const TensorRef from = add_buffer(init, "inline", kVector, Segment::Weights, inline_weight);
  add_conversion(init, from, add_buffer(init, "splat", kVector, Segment::Weights, splat), "fill");
  small.finish(kernel_text(convert_body()));
  const auto view = open(plan_bytes(small.content));
  REQUIRE(view->init(fb::TargetKind::Vulkan) != nullptr);
  const auto& weights = *view->index().weights();
  CHECK(weights.Get(0)->kind() == fb::WeightKind::Inline);
  CHECK(weights.Get(1)->kind() == fb::WeightKind::Generated);
  CHECK(weights.Get(1)->offset_bytes() >= view->weights_section_bytes());
  CHECK(view->header().weights_bytes == 512 + 400);
}

TEST_CASE("a file has the bytes of the plan in memory, wherever it is written") {
  SmallPlan small;
  build(small);
  const std::vector<std::byte> expected = plan_bytes(small.content);
  const TemporaryFolder folder;
  for (const std::string name : {"a.plan", "another name.plan"}) {
    Diagnostics diagnostics;
    const std::string path = folder.path() + "/" + name;
    const auto summary = write_plan(small.content, path, diagnostics);
    INFO(diagnostics.text());
    REQUIRE(summary.has_value());
    CHECK(summary->plan_bytes == expected.size());
    CHECK((read_bytes(path) == expected));
    CHECK_FALSE(std::filesystem::exists(path + ".partial"));
  }
}

TEST_CASE("a view that runs backwards keeps its range and points to its first element") {
  SmallPlan small;
  Program& program = small.programs.emplace_back(conversion_program(kVector, kVector));
  Access& reversed = program.steps[0].accesses[0];
  REQUIRE(reversed.mode == AccessMode::Read);
  reversed.offset_bytes = 396;  // element 99 of the whole range
  small.finish(kernel_text(convert_body()));
  const auto view = open(plan_bytes(small.content));
  const fb::Step& step = *view->entry(0).steps()->Get(0);
  const fb::Relocation& relocation = PlanView::relocations(view->entry(0), step)[0];
  CHECK(relocation.offset_bytes() == 0);
  CHECK(relocation.length_bytes() == 400);
  uint64_t addend = 0;
  std::memcpy(&addend, view->params(step).data() + relocation.position(), sizeof addend);
  CHECK(addend == 396);

  for (const uint64_t offset : {400, 398}) {  // behind the range, and not at an element
    reversed.offset_bytes = offset;
    CHECK(refusal(small.content).find("V7.4") != std::string::npos);
  }
}

TEST_CASE("a plan that the verifier refuses is an internal error and is not written") {
  SmallPlan small;
  build(small);
  small.schedules[0].wave.assign(
      5, 0);  // the second step reads what the first writes in the same wave
  small.schedules[0].wave_count = 1;
  CHECK(refusal(small.content).find("V6.1") != std::string::npos);
  const TemporaryFolder folder;
  folder.write("old.plan", "old");
  Diagnostics diagnostics;
  CHECK_THROWS_AS(write_plan(small.content, folder.path() + "/old.plan", diagnostics),
                  InternalError);
  CHECK(read_bytes(folder.path() + "/old.plan").size() == 3);
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/old.plan.partial"));
}

TEST_CASE("a plan goes through a link to its file, and into a device that stays one") {
  SmallPlan small;
  build(small);
  const TemporaryFolder folder;
  Diagnostics diagnostics;
  std::filesystem::create_symlink("real.plan", folder.path() + "/link.plan");
  REQUIRE(write_plan(small.content, folder.path() + "/link.plan", diagnostics).has_value());
  CHECK(std::filesystem::is_symlink(folder.path() + "/link.plan"));
  CHECK(read_bytes(folder.path() + "/real.plan") == plan_bytes(small.content));
  REQUIRE(write_plan(small.content, "/dev/null", diagnostics).has_value());
  CHECK(std::filesystem::is_character_file("/dev/null"));
  CHECK(diagnostics.all().empty());
  CHECK_FALSE(write_plan(small.content, "/dev/full", diagnostics).has_value());
  CHECK(diagnostics.text().find("No space left") != std::string::npos);
  CHECK(std::filesystem::is_character_file("/dev/full"));
}

TEST_CASE("a path that cannot be written is reported with its reason") {
  SmallPlan small;
  build(small);
  const TemporaryFolder folder;
  for (const std::string& path : {folder.path(), folder.path() + "/missing/x.plan"}) {
    Diagnostics diagnostics;
    CHECK_FALSE(write_plan(small.content, path, diagnostics).has_value());
    REQUIRE(diagnostics.error_count() == 1);
    CHECK(diagnostics.all()[0].code == DiagCode::FileWrite);
    CHECK(diagnostics.text().find(path) != std::string::npos);
  }
}

TEST_CASE("equal choices stand in the debug section once") {
  Step chosen;
  chosen.offers = {{.kernel = "matmul_mma", .refusal = "a batch"},
                   {.kernel = "matmul", .microseconds = 2.5, .rank = 1, .taken = true}};
  Step other = chosen;
  other.offers[1].microseconds = 3;
  Program program;
  program.steps = {chosen, other, Step{}, chosen};
  Schedule schedule;
  schedule.order = {0, 1, 2, 3};
  PlanContent content;
  content.entries = {{.program = &program, .schedule = &schedule}};

  const std::vector<std::byte> bytes = build_debug_section(content);
  const fb::Debug& debug = *fb::GetDebug(bytes.data());
  REQUIRE(debug.choices()->size() == 2);
  const auto& notes = *debug.entries()->Get(0)->steps();
  CHECK(*notes.Get(0)->choice() == 0);
  CHECK(*notes.Get(1)->choice() == 1);
  CHECK_FALSE(notes.Get(2)->choice().has_value());
  CHECK(*notes.Get(3)->choice() == 0);
  const auto& offers = *debug.choices()->Get(0)->offers();
  REQUIRE(offers.size() == 2);
  CHECK(offers.Get(0)->refusal()->str() == "a batch");
  CHECK(offers.Get(1)->refusal() == nullptr);
  CHECK(offers.Get(1)->microseconds() == 2.5);
  CHECK(offers.Get(1)->taken());
}

TEST_CASE("a plan without choices has no list of them") {
  Program program;
  program.steps = {Step{}};
  Schedule schedule;
  schedule.order = {0};
  PlanContent content;
  content.entries = {{.program = &program, .schedule = &schedule}};
  const std::vector<std::byte> bytes = build_debug_section(content);
  CHECK(fb::GetDebug(bytes.data())->choices() == nullptr);
}
