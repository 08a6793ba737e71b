// SPDX-License-Identifier: Apache-2.0
// Weights that stay in the model's files: which ones, and that plans then compute the same.
#include <algorithm>
#include <fstream>
#include <map>

#include "compiler/import/entries.h"
#include "runtime/plan/plan_view.h"
#include "tests/compile/graph_text.h"
#include "tests/support/temporary_folder.h"

namespace rlx::test {
namespace {

// y = x @ w + b, w of 8 KiB and b of 128 bytes in one raw file.
const char* const kModel = R"({"rlx_graph": 1, "symbols": [{"name": "rows", "min": 1, "max": 64}],
  "params": [{"name": "w", "dtype": "f32", "shape": [64, 32], "data": {"raw": "w.bin", "offset": 64}},
             {"name": "b", "dtype": "f32", "shape": [32], "data": {"raw": "w.bin", "offset": 8256}}],
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["rows", 64]}],
  "nodes": [{"op": "matmul", "inputs": ["x", "w"], "outputs": ["h"]},
            {"op": "add", "inputs": ["h", "b"], "outputs": ["y"]}],
  "outputs": ["y"]})";

// A folder with the model.
class ModelFolder : public TemporaryFolder {
 public:
  ModelFolder() {
    write("m.json", kModel);
    std::ofstream file(path("w.bin"), std::ios::binary);
    for (int i = 0; i < 2200; ++i) {
      const auto number = static_cast<float>(i % 97) / 97;
      file.write(reinterpret_cast<const char*>(&number), sizeof number);
    }
  }
};

std::shared_ptr<const PlanView> compile(const ModelFolder& folder, bool external) {
  Diagnostics diagnostics;
  // Two entries: the model is mapped twice.
  const std::vector<EntryRequest> entries = {{.name = "one", .source = "", .dims = {{"rows", 1}}},
                                             {.name = "all", .source = "", .dims = {{"rows", 64}}}};
  std::optional<Module> module = load_entries(folder.path("m.json"), {}, entries, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  CompileOptions options = test_options(2);
  options.external_weights = external;
  const std::string path = folder.path(external ? "external.plan" : "whole.plan");
  REQUIRE(compile_to_file(std::move(*module), options, path, diagnostics));
  std::shared_ptr<const PlanView> view;
  REQUIRE(PlanView::open_file(path, {.check_weights = true}, view).ok());
  return view;
}

using Weights = std::map<std::string, std::vector<std::byte>>;

Weights weights_of(const PlanView& view) {
  Weights weights;
  for (const fb::Weight* weight : *view.index().weights()) {
    std::vector<std::byte>& bytes = weights[weight->name()->str()];
    bytes.resize(weight->size_bytes());
    REQUIRE(view.read_weights(weight->offset_bytes(), bytes).ok());
  }
  return weights;
}

const fb::Weight& weight_named(const PlanView& view, std::string_view name) {
  const auto& weights = *view.index().weights();
  const auto found = std::find_if(weights.begin(), weights.end(), [&](const fb::Weight* weight) {
    return PlanView::text(weight->name()) == name;
  });
  REQUIRE(found != weights.end());
  return **found;
}

}  // namespace

TEST_CASE("weights that are bytes of the model's files can stay there") {
  const ModelFolder folder;
  const auto whole = compile(folder, false);
  const auto external = compile(folder, true);
  CHECK(weights_of(*whole) == weights_of(*external));
  CHECK(whole->weights_section_bytes() == 8192 + 128);
  CHECK(external->weights_section_bytes() == 128);  // b is not worth a read of its own
  CHECK(external->header().weights_bytes == 256 + 8192);
  REQUIRE(external->index().weight_files()->size() == 1);
  CHECK(PlanView::text(external->index().weight_files()->Get(0)->name()) == "w.bin");
  const fb::Weight& w = weight_named(*external, "w");
  CHECK(w.kind() == fb::WeightKind::External);
  CHECK(w.file_offset() == 64);
  CHECK(whole->header().minor == kPlanMinorPlain);
  CHECK(external->header().minor == kPlanMinorFree);
}

}  // namespace rlx::test
