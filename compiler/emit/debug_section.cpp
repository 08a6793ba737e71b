// SPDX-License-Identifier: Apache-2.0
// Where steps come from and why their kernels were taken, as debug.fbs tables.
#include "compiler/emit/debug_section.h"

#include <map>
#include <vector>

#include "schema/debug_generated.h"

namespace rlx {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

// The choices of a plan, each of them once.
class ChoiceList {
 public:
  // The choice's number; none where the step's kernel was not chosen.
  flatbuffers::Optional<uint32_t> add(FlatBufferBuilder& builder, const Step& step) {
    if (step.offers.empty()) return flatbuffers::nullopt;
    const auto next = static_cast<uint32_t>(choices_.size());
    const auto [known, is_new] = numbers_.try_emplace(step.offers, next);
    if (is_new) choices_.push_back(choice(builder, step.offers));
    return known->second;
  }
  [[nodiscard]] const std::vector<Offset<fb::Choice>>& all() const { return choices_; }

 private:
  static Offset<fb::Choice> choice(FlatBufferBuilder& builder,
                                   const std::vector<OfferNote>& offers) {
    std::vector<Offset<fb::Offer>> rows;
    for (const OfferNote& offer : offers) {
      const auto kernel = builder.CreateSharedString(offer.kernel);
      Offset<flatbuffers::String> refusal;
      if (!offer.refusal.empty()) refusal = builder.CreateSharedString(offer.refusal);
      rows.push_back(fb::CreateOffer(builder, kernel, refusal, offer.microseconds, offer.is_bound,
                                     offer.rank, offer.taken));
    }
    return fb::CreateChoice(builder, builder.CreateVector(rows));
  }

  std::map<std::vector<OfferNote>, uint32_t> numbers_;
  std::vector<Offset<fb::Choice>> choices_;
};

}  // namespace

std::vector<std::byte> build_debug_section(const PlanContent& content) {
  FlatBufferBuilder builder;
  ChoiceList choices;
  std::vector<Offset<fb::EntryNotes>> entries;
  std::vector<uint64_t> unplanned;
  for (const PlanEntry& entry : content.all_entries()) {
    std::vector<Offset<fb::StepNote>> notes;
    for (const uint32_t s : entry.schedule->order) {
      const Step& step = entry.program->steps.at(s);
      // Shared: the same few words stand on many steps.
      const auto node = builder.CreateSharedString(step.node);
      const auto op = builder.CreateSharedString(step.op);
      const auto source = builder.CreateSharedString(step.source);
      const auto reason = builder.CreateSharedString(step.reason);
      notes.push_back(
          fb::CreateStepNote(builder, node, op, source, reason, choices.add(builder, step)));
    }
    entries.push_back(fb::CreateEntryNotes(builder, builder.CreateVector(notes)));
    unplanned.push_back(entry.schedule->unplanned_bytes);
  }
  const auto entry_list = builder.CreateVector(entries);
  const auto pass_list = builder.CreateVectorOfStrings(content.pass_log);
  const auto unplanned_list = builder.CreateVector(unplanned);
  Offset<flatbuffers::Vector<Offset<fb::Choice>>> choice_list;
  if (!choices.all().empty()) choice_list = builder.CreateVector(choices.all());
  fb::FinishDebugBuffer(
      builder, fb::CreateDebug(builder, entry_list, pass_list, unplanned_list, choice_list));
  const auto* bytes = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {bytes, bytes + builder.GetSize()};
}

}  // namespace rlx
