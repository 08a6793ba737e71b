// SPDX-License-Identifier: Apache-2.0
// Two sides that give values by name, and a search over the steps of the first.
#include "tools/rlxrun/against.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "runtime/plan/free_sizes.h"
#include "runtime/plan/plan_view.h"
#include "tools/npy/array_folder.h"
#include "tools/rlxrun/errors.h"
#include "tools/rlxrun/inputs.h"
#include "tools/rlxrun/live_values.h"
#include "tools/rlxrun/numbers.h"
#include "tools/rlxrun/reference_values.h"
#include "tools/rlxrun/states.h"
#include "tools/rlxrun/usual_bound.h"

namespace rlx::tool {
namespace {

// A plan on a device with its inputs and states set, and when its values are whole.
class Program {
 public:
  explicit Program(const Options& options)
      : plan_(open_plan(options)),
        entry_(describe_entry(plan_.get(), options.entry)),
        inputs_(load_inputs(options, entry_.inputs)),
        device_(open_wanted_device(options, plan_.get(), facts_)),
        session_(create_session(plan_.get(), device_.get(), options)) {
    const States states = load_states(plan_.get(), options);
    give_inputs(session_.get(), entry_, inputs_, options);
    begin_states(session_.get(), states);
    check(rlx_session_poison_arena(session_.get(), 0));
    check(rlx_session_prepare(session_.get(), entry_.index));
    describe_program(session_.get(), entry_);
    values_ = describe_values(session_.get(), entry_.index);
    const PlanOptions view_options{.weights_folder = options.weights_folder};
    check(PlanView::open_file(options.plan_path, view_options, view_));
    whole_ = whole_values(record());
  }

  [[nodiscard]] const EntryView& entry() const { return entry_; }
  [[nodiscard]] const DeviceFacts& facts() const { return facts_; }
  [[nodiscard]] const PlanView& view() const { return *view_; }
  [[nodiscard]] const std::vector<WholeValue>& whole() const { return whole_; }
  [[nodiscard]] const Tensor& tensor(const WholeValue& whole) const { return values_[whole.value]; }

  [[nodiscard]] std::vector<std::byte> read(const WholeValue& whole) const {
    std::vector<std::byte> data(tensor(whole).size_bytes);
    check(rlx_session_read_value(session_.get(), entry_.index, whole.step, whole.value, data.data(),
                                 data.size()));
    return data;
  }

  // Every symbol of the plan with its value.
  [[nodiscard]] std::vector<SymbolValue> symbols() const {
    std::vector<SymbolValue> symbols;
    for (const fb::Symbol* symbol : *view_->index().symbols()) {
      const std::string name(PlanView::text(symbol->name()));
      symbols.push_back(
          {.name = name,
           .value = symbol->bound() ? *symbol->bound() : symbol_of(session_.get(), entry_, name)});
    }
    return symbols;
  }

  // The inputs as they are set.
  [[nodiscard]] std::vector<std::pair<std::string, npy::Array>> inputs(
      const Options& options) const {
    std::vector<std::pair<std::string, npy::Array>> all;
    for (uint32_t i = 0; i < entry_.inputs.size(); ++i) {
      const Tensor& input = entry_.inputs[i];
      const bool is_kept = inputs_.given[i] || !input.is_free();
      all.emplace_back(input.name,
                       is_kept ? inputs_.arrays[i]
                               : seeded_array(describe_input(session_.get(), entry_.index, i),
                                              options.seed, options.seeded_max));
    }
    return all;
  }

 private:
  // What the session's device runs at the present sizes, as the file has it.
  [[nodiscard]] const fb::Entry& record() const {
    rlx_program_info info = RLX_INIT(rlx_program_info);
    check(rlx_session_get_program(session_.get(), entry_.index, &info));
    std::vector<uint64_t> values;
    for (const SymbolValue& symbol : symbols()) values.push_back(symbol.value);
    for (const fb::Entry* record :
         view_->entry_ranges(entry_.index, static_cast<fb::TargetKind>(info.target))) {
      if (is_made_for(*record, values)) return *record;
    }
    return view_->entry(entry_.index, static_cast<fb::TargetKind>(info.target));
  }

  PlanHandle plan_;
  EntryView entry_;
  Matched inputs_;
  DeviceFacts facts_;
  DeviceHandle device_;
  SessionHandle session_;
  std::vector<Tensor> values_;
  std::shared_ptr<const PlanView> view_;
  std::vector<WholeValue> whole_;
};

// What a value is known by on both sides: its name, and how many whole ones of that name came
// before.
using ValueKey = std::pair<std::string, uint32_t>;

std::vector<ValueKey> keys_of(const Program& program) {
  std::map<std::string, uint32_t> counts;
  std::vector<ValueKey> keys;
  for (const WholeValue& whole : program.whole()) {
    const std::string& name = program.tensor(whole).name;
    keys.emplace_back(name, counts[name]++);
  }
  return keys;
}

bool can_compare(const Tensor& tensor, npy::Element element, const std::vector<uint64_t>& dims) {
  const uint32_t dtype = npy::carries(element, tensor.dtype) ? tensor.dtype : dtype_of(element);
  return class_of(tensor.dtype) != NumberClass::None && class_of(dtype) == class_of(tensor.dtype) &&
         tensor.dims == dims;
}

// Where expected values come from.
class Other {
 public:
  virtual ~Other() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  // None where this side has no such value of that shape and kind of type.
  virtual std::optional<npy::Array> value(const ValueKey& key, const Tensor& like) = 0;
  // Whether value() would give one.
  virtual bool has(const ValueKey& key, const Tensor& like) = 0;
};

class OtherProgram : public Other {
 public:
  OtherProgram(const Options& options, std::string name)
      : program_(options), name_(std::move(name)) {
    const std::vector<ValueKey> keys = keys_of(program_);
    for (size_t i = 0; i < keys.size(); ++i) index_.emplace(keys[i], i);
  }

  [[nodiscard]] std::string name() const override {
    return name_ + " (" + program_.facts().id + " " + program_.facts().name + ")";
  }
  bool has(const ValueKey& key, const Tensor& like) override { return find(key, like) != nullptr; }
  std::optional<npy::Array> value(const ValueKey& key, const Tensor& like) override {
    const WholeValue* whole = find(key, like);
    if (whole == nullptr) return std::nullopt;
    return to_array(program_.tensor(*whole), program_.read(*whole));
  }

 private:
  const WholeValue* find(const ValueKey& key, const Tensor& like) const {
    const auto found = index_.find(key);
    if (found == index_.end()) return nullptr;
    const WholeValue& whole = program_.whole()[found->second];
    const Tensor& tensor = program_.tensor(whole);
    const std::optional<npy::Element> element = npy::element_for(tensor.dtype);
    return element && can_compare(like, *element, tensor.dims) ? &whole : nullptr;
  }

  Program program_;
  std::string name_;
  std::map<ValueKey, size_t> index_;
};

// A folder of arrays, NAME.npy each, as `rlxc reference --keep-all --outputs DIR` writes them.
class OtherFolder : public Other {
 public:
  OtherFolder(std::string folder, std::string name)
      : folder_(std::move(folder)), name_(std::move(name)) {}

  [[nodiscard]] std::string name() const override { return name_; }
  bool has(const ValueKey& key, const Tensor& like) override {
    return value(key, like).has_value();
  }
  std::optional<npy::Array> value(const ValueKey& key, const Tensor& like) override {
    const std::string path = folder_ + "/" + npy::ArrayFolder::file_name(key.first);
    if (key.second != 0 || !std::filesystem::exists(path)) return std::nullopt;
    npy::Array array;
    check(npy::read_npy(path, array));
    if (!can_compare(like, array.element, array.dims)) return std::nullopt;
    return array;
  }

 private:
  std::string folder_;
  std::string name_;
};

class Search {
 public:
  Search(const Program& program, Other& other, const Options& options)
      : program_(program), other_(other), options_(options), keys_(keys_of(program)) {
    for (size_t i = 0; i < keys_.size(); ++i) {
      const Tensor& tensor = program_.tensor(program_.whole()[i]);
      const bool is_readable = class_of(tensor.dtype) != NumberClass::None;
      matched_.push_back(is_readable && other_.has(keys_[i], tensor));
    }
    verdicts_.resize(keys_.size());
  }

  // The first step after which something differs that lives, as the header says.
  std::optional<size_t> find() {
    const auto step_count = static_cast<uint32_t>(program_.entry().steps.size());
    if (step_count == 0) return std::nullopt;
    if (!differs_after(step_count - 1)) return find_one_by_one();
    uint32_t bad = step_count - 1;
    for (uint32_t good = 0; good < bad;) {
      const uint32_t middle = good + (bad - good) / 2;
      if (differs_after(middle)) {
        bad = middle;
      } else {
        good = middle + 1;
      }
    }
    return differs_after(bad);
  }

  [[nodiscard]] uint32_t matched_count() const {
    return static_cast<uint32_t>(std::count(matched_.begin(), matched_.end(), true));
  }
  [[nodiscard]] uint32_t compared_count() const { return compared_count_; }

  Divergence describe(size_t index) {
    const WholeValue& whole = program_.whole()[index];
    const Tensor& tensor = program_.tensor(whole);
    const rlx_step_info& step = program_.entry().steps[whole.step];
    Divergence divergence{.step = whole.step,
                          .kernel = step.kernel,
                          .node = step.node,
                          .op = step.op,
                          .type = type_text(tensor.dtype, tensor.dims)};
    const std::vector<std::byte> got = program_.read(whole);
    const npy::Array wanted = *other_.value(keys_[index], tensor);
    const Tolerances bound = bound_of(tensor, wanted);
    divergence.comparison = compare(tensor, got, wanted, bound);
    divergence.rtol = *bound.rtol;
    divergence.atol = *bound.atol;
    npy::ArrayFolder folder;
    check_written(npy::ArrayFolder::open(options_.against_folder, folder));
    check_written(folder.write(tensor.name + ".got", to_array(tensor, got), divergence.got_path));
    check_written(folder.write(tensor.name + ".expected", wanted, divergence.wanted_path));
    return divergence;
  }

 private:
  [[nodiscard]] Tolerances bound_of(const Tensor& tensor, const npy::Array& wanted) const {
    const Tolerances usual =
        usual_bound(tensor.dtype, PlanView::text(program_.view().index().precision()), wanted);
    return {.rtol = options_.rtol ? options_.rtol : usual.rtol,
            .atol = options_.atol ? options_.atol : usual.atol};
  }

  bool differs(size_t index) {
    if (!matched_[index]) return false;
    if (verdicts_[index]) return *verdicts_[index];
    const WholeValue& whole = program_.whole()[index];
    const Tensor& tensor = program_.tensor(whole);
    const npy::Array wanted = *other_.value(keys_[index], tensor);
    const Comparison comparison =
        compare(tensor, program_.read(whole), wanted, bound_of(tensor, wanted));
    ++compared_count_;
    verdicts_[index] = comparison.wrong_count > 0;
    return *verdicts_[index];
  }

  // Of what is whole after the step and is still wanted, the first that differs.
  std::optional<size_t> differs_after(uint32_t step) {
    const std::vector<WholeValue>& whole = program_.whole();
    for (size_t i = 0; i < whole.size() && whole[i].step <= step; ++i) {
      if (whole[i].last >= step && differs(i)) return i;
    }
    return std::nullopt;
  }

  std::optional<size_t> find_one_by_one() {
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (differs(i)) return i;
    }
    return std::nullopt;
  }

  const Program& program_;
  Other& other_;
  const Options& options_;
  std::vector<ValueKey> keys_;
  std::vector<bool> matched_;
  std::vector<std::optional<bool>> verdicts_;  // of what was compared
  uint32_t compared_count_ = 0;
};

bool is_device(const std::string& text) {
  const std::string kind = text.substr(0, text.find(':'));
  return kind == "vulkan" || kind == "cuda" || kind == "null";
}

std::unique_ptr<Other> open_other(const Options& options, const Program& program,
                                  ReferenceFolder& reference) {
  const std::string& against = options.against;
  if (against == "cpu-reference") {
    if (options.reference_model.empty()) {
      throw Failure(ExitCode::Usage,
                    "--against cpu-reference evaluates the model that the plan was compiled from: "
                    "name it with --model FILE");
    }
    if (!options.states.empty()) {
      throw Failure(ExitCode::Usage,
                    "--against cpu-reference begins states as the model says: leave --state out");
    }
    reference.evaluate(options.reference_model, options.entry, program.symbols(),
                       program.inputs(options));
    return std::make_unique<OtherFolder>(reference.path(), "the reference evaluator");
  }
  if (!options.reference_model.empty())
    throw Failure(ExitCode::Usage, "--model goes with --against cpu-reference");
  std::error_code ignored;
  if (std::filesystem::is_directory(against, ignored))
    return std::make_unique<OtherFolder>(against, against);
  Options other = options;
  if (is_device(against)) {
    other.device = against;
  } else {
    other.plan_path = against;
  }
  return std::make_unique<OtherProgram>(other, is_device(against) ? "the same plan" : against);
}

}  // namespace

AgainstReport run_against(const Options& options) {
  const Program program(options);
  ReferenceFolder reference;
  const std::unique_ptr<Other> other = open_other(options, program, reference);
  Search search(program, *other, options);
  AgainstReport report{.plan = std::string(program.view().name()),
                       .entry = program.entry().name,
                       .device = program.facts(),
                       .other = other->name(),
                       .step_count = static_cast<uint32_t>(program.entry().steps.size()),
                       .value_count = static_cast<uint32_t>(program.whole().size()),
                       .matched_count = search.matched_count()};
  if (report.matched_count == 0 && report.value_count > 0) {
    throw Failure(ExitCode::InputRefused, "--against " + options.against +
                                              ": no value of entry \"" + report.entry +
                                              "\" has a partner of its name, shape and type there");
  }
  if (const std::optional<size_t> found = search.find())
    report.divergence = search.describe(*found);
  report.compared_count = search.compared_count();
  return report;
}

}  // namespace rlx::tool
