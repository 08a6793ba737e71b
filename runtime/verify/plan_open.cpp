// SPDX-License-Identifier: Apache-2.0
// Opening of a plan: copies its small sections out of the file, verifies them, and only then gives
// them away.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/base/text.h"
#include "runtime/plan/plan_view.h"
#include "runtime/trust/known_code.h"
#include "runtime/trust/signed_digests.h"
#include "runtime/verify/verify_context.h"
#include "schema/plan_regions.h"

namespace rlx {
namespace {

constexpr uint64_t kReadChunkBytes = uint64_t{1} << 20;
// Sections of so many bytes are read whatever the file holds of them; larger ones where it holds
// a 32nd at least, which is the most that file systems compress to.
constexpr uint64_t kAlwaysReadBytes = uint64_t{64} << 20;
constexpr uint64_t kMostCompression = 32;
constexpr uint64_t kMostSignatureBytes = uint64_t{1} << 20;  // 32,000 files with weights

// Of a page of kPlanHeaderBytes.
uint64_t header_checksum(std::span<const std::byte> page) {
  std::array<std::byte, kPlanHeaderBytes> copy;
  std::memcpy(copy.data(), page.data(), copy.size());
  std::memset(copy.data() + offsetof(PlanHeader, header_checksum), 0,
              sizeof(PlanHeader::header_checksum));
  return XXH3_64bits(copy.data(), copy.size());
}

}  // namespace

// Fills a PlanView. Statuses are for what the system refuses; what the plan does wrong goes to the
// list of faults.
class PlanLoader {
 public:
  static Status load_file(const std::string& path, const VerifyOptions& options,
                          std::shared_ptr<PlanView>& view, std::vector<VerifyFault>& faults) {
    auto opened = std::shared_ptr<PlanView>(new PlanView);
    RLX_RETURN_IF_ERROR(InputFile::open(path, opened->file_));
    PlanLoader loader(*opened, opened->file_.size_bytes(), options);
    const size_t slash = path.find_last_of('/');
    RLX_RETURN_IF_ERROR(loader.load(slash == std::string::npos ? "." : path.substr(0, slash)));
    faults = std::move(loader.faults_.list());
    view = std::move(opened);
    return {};
  }

  static Status load_memory(std::span<const std::byte> bytes, bool copy,
                            const VerifyOptions& options, std::shared_ptr<PlanView>& view,
                            VerifyReport& report) {
    auto opened = std::shared_ptr<PlanView>(new PlanView);
    if (copy) opened->owned_.assign(bytes.begin(), bytes.end());
    opened->memory_ = copy ? std::span<const std::byte>(opened->owned_) : bytes;
    PlanLoader loader(*opened, bytes.size(), options);
    RLX_RETURN_IF_ERROR(loader.load({}));
    report = {.faults = std::move(loader.faults_.list()), .work = loader.faults_.work()};
    view = std::move(opened);
    return {};
  }

  static std::shared_ptr<PlanView> load_index(std::shared_ptr<const PlanView> plan,
                                              std::vector<std::byte> index,
                                              std::vector<VerifyFault>& faults) {
    auto opened = std::shared_ptr<PlanView>(new PlanView);
    opened->header_ = plan->header_;
    opened->header_.host_bytes += index.size() - plan->index_bytes_.size();
    opened->header_.header_checksum ^= XXH3_64bits(index.data(), index.size());
    opened->index_bytes_ = std::move(index);
    opened->params_ = plan->params_;
    const std::span<const std::byte> code = plan->code_section();
    opened->code_.assign(code.begin(), code.end());
    opened->debug_bytes_ = plan->debug_bytes_;
    opened->weights_bytes_ = plan->weights_bytes_;
    opened->text_ = plan->text_;
    opened->base_ = std::move(plan);
    PlanLoader loader(*opened, opened->header_.file_bytes, {});
    loader.verify();
    faults = std::move(loader.faults_.list());
    return opened;
  }

 private:
  PlanLoader(PlanView& view, uint64_t size_bytes, const VerifyOptions& options)
      : view_(view),
        size_bytes_(size_bytes),
        check_weights_(options.check_weights),
        weights_folder_(options.weights_folder),
        trust_(options.trust),
        faults_(options.max_faults) {}

  // `folder` is the plan's.
  Status load(const std::string& folder) {
    RLX_RETURN_IF_ERROR(load_header());
    if (!faults_.empty()) return {};
    RLX_RETURN_IF_ERROR(load_sections());
    if (!faults_.empty()) return {};
    std::optional<SignedFiles> signed_files;
    if (trust_.kind == Trust::Signed) RLX_RETURN_IF_ERROR(check_signature(signed_files.emplace()));
    verify();
    if (!faults_.empty()) return {};
    if (trust_.kind == Trust::Known) RLX_RETURN_IF_ERROR(check_known());
    view_.weight_files_ = std::make_unique<WeightFiles>(
        *view_.index_, weights_folder_.empty() ? folder : weights_folder_);
    if (signed_files)
      return view_.weight_files_->check_signed(signed_files->library, signed_files->digests);
    return check_weights_ ? view_.weight_files_->check() : Status();
  }

  struct SignedFiles {
    LibCrypto library;
    std::vector<Sha256Digest> digests;  // of files with weights
  };

  // Before anything of the plan is looked into: that one of the trusted keys signed its header, and
  // that its sections are as they were then.
  Status check_signature(SignedFiles& files) const {
    RLX_RETURN_IF_ERROR(LibCrypto::open(files.library));
    std::vector<PublicKey> keys;
    RLX_RETURN_IF_ERROR(files.library.read_public_keys(trust_.public_keys, keys));
    std::vector<std::byte> section;
    RLX_RETURN_IF_ERROR(read_signature_section(section));
    PlanDigests digests;
    RLX_RETURN_IF_ERROR(read_signature(files.library, keys, page_, section, place(), digests));
    files.digests = std::move(digests.weight_files);
    auto wanted = digests.sections.begin();
    for (const PlanSection& row : section_rows()) {
      if (row.kind == kSignatureSection) continue;
      FastSha256 hash(files.library);
      RLX_RETURN_IF_ERROR(
          for_each_chunk(row, [&hash](std::span<const std::byte> part) { hash.update(part); }));
      Sha256Digest digest;
      RLX_RETURN_IF_ERROR(hash.finish(digest));
      if (digest == *wanted++) continue;
      return {RLX_UNTRUSTED_PLAN,
              text_of(place(), ": its section of kind ", row.kind, " (", section_name(row.kind),
                      ") is not as it was when the plan was signed")};
    }
    return {};
  }

  Status read_signature_section(std::vector<std::byte>& bytes) const {
    const PlanSection* found = nullptr;
    for (const PlanSection& row : section_rows()) {
      if (row.kind != kSignatureSection) continue;
      if (found != nullptr || row.size_bytes > kMostSignatureBytes) {
        return {RLX_UNTRUSTED_PLAN,
                text_of(place(), " has a damaged signature: sign it again with rlxc sign")};
      }
      found = &row;
    }
    if (found == nullptr) {
      return {RLX_UNTRUSTED_PLAN,
              text_of(place(),
                      " is not signed, and only signed plans are trusted: rlxc sign "
                      "signs it")};
    }
    bytes.resize(found->size_bytes);
    return read(found->offset_bytes, bytes);
  }

  // That the caller knows all of the plan's code.
  Status check_known() const {
    KnownCode known;
    RLX_RETURN_IF_ERROR(KnownCode::parse(trust_.known_code, known));
    for (const fb::Kernel* kernel : *view_.index_->kernels()) {
      for (const fb::Variant* variant : *kernel->variants()) {
        const Sha256Digest digest = view_.code_digest(*kernel, *variant);
        if (known.contains(digest)) continue;
        return {RLX_UNTRUSTED_PLAN,
                text_of(place(), ": code ", hex_text(digest), " of kernel ",
                        quoted(PlanView::text(kernel->name())),
                        " is not in the list of known code; rlxc inspect --known prints what to "
                        "add, where it is trusted")};
      }
    }
    return {};
  }

  // For sentences.
  [[nodiscard]] std::string place() const {
    return view_.file_.is_open() ? text_of("plan ", quoted(view_.file_.path())) : "plan in memory";
  }

  [[nodiscard]] std::span<const PlanSection> section_rows() const {
    return {view_.header_.sections, view_.header_.section_count};
  }

  // The copy of a section by which the plan is run; none of those that are read later.
  [[nodiscard]] std::span<const std::byte> held(const PlanSection& section) const {
    switch (static_cast<SectionKind>(section.kind)) {
      case SectionKind::Index:
        return view_.index_bytes_;
      case SectionKind::Params:
        return view_.params_;
      case SectionKind::Code:
        return view_.code_;
      case SectionKind::Debug:
        return view_.debug_bytes_;
      default:
        return {};
    }
  }

  // Gives a section's bytes to `take`, in order.
  template <class Take>
  Status for_each_chunk(const PlanSection& section, const Take& take) const {
    if (const auto copy = held(section); !copy.empty()) {
      take(copy);
      return {};
    }
    std::vector<std::byte> chunk(std::min(section.size_bytes, kReadChunkBytes));
    for (uint64_t done = 0; done < section.size_bytes;) {
      const std::span<std::byte> part(chunk.data(),
                                      std::min<uint64_t>(chunk.size(), section.size_bytes - done));
      RLX_RETURN_IF_ERROR(read(section.offset_bytes + done, part));
      take(std::span<const std::byte>(part));
      done += part.size();
    }
    return {};
  }

  // Everything behind the header and the sections' checksums.
  void verify() {
    faults_.allow_work(kWorkPerPlan +
                       kWorkPerIndexByte * (view_.index_bytes_.size() + view_.debug_bytes_.size()) +
                       kWorkPerCodeByte * view_.code_.size());
    verify_index_structure(view_.index_bytes_, faults_);
    if (!view_.debug_bytes_.empty()) verify_debug_structure(view_.debug_bytes_, faults_);
    if (!faults_.empty()) return;
    view_.index_ = fb::GetPlan(view_.index_bytes_.data());
    if (!view_.debug_bytes_.empty()) view_.debug_ = fb::GetDebug(view_.debug_bytes_.data());
    PlanParts parts{.header = view_.header_,
                    .plan = *view_.index_,
                    .params = view_.params_,
                    .code = view_.code_,
                    .index_bytes = view_.index_bytes_.size(),
                    .weights_section_bytes = view_.weights_bytes_};
    verify_content(parts, faults_);
    if (faults_.empty()) view_.group_records();
  }

  Status load_header() {
    if (size_bytes_ < kPlanHeaderBytes) {
      std::vector<std::byte> start(std::min<uint64_t>(size_bytes_, sizeof kPlanMagic));
      RLX_RETURN_IF_ERROR(read(0, start));
      const bool is_plan = start.size() == sizeof kPlanMagic &&
                           std::memcmp(start.data(), kPlanMagic, start.size()) == 0;
      faults_.add(VerifyRule::FileLength, is_plan ? "the plan was truncated" : "this is no plan",
                  ": it has ", size_bytes_, " bytes, its header page alone has ", kPlanHeaderBytes);
      return {};
    }
    page_.resize(kPlanHeaderBytes);
    RLX_RETURN_IF_ERROR(read(0, page_));
    std::memcpy(&view_.header_, page_.data(), sizeof(PlanHeader));
    const bool is_ours = std::memcmp(view_.header_.magic, kPlanMagic, sizeof kPlanMagic) == 0 &&
                         view_.header_.major == kPlanMajor &&
                         view_.header_.header_bytes == kPlanHeaderBytes;
    // An altered header is told as such, before any of its fields is judged.
    const uint64_t checksum = header_checksum(page_);
    if (is_ours && checksum != view_.header_.header_checksum) {
      faults_.add(VerifyRule::HeaderChecksum, "the header was altered: its checksum is ", checksum,
                  ", recorded is ", view_.header_.header_checksum);
      return {};
    }
    verify_header(view_.header_, size_bytes_, faults_);
    return {};
  }

  // What is read into memory is in the file: an empty file of any size costs no more than a page.
  Status check_held() const {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < view_.header_.section_count; ++i) {
      const PlanSection& section = view_.header_.sections[i];
      const auto kind = static_cast<SectionKind>(section.kind);
      if (kind != SectionKind::Weights && kind != SectionKind::Text) bytes += section.size_bytes;
    }
    const uint64_t held = view_.file_.held_bytes();
    if (bytes <= kAlwaysReadBytes || held == 0 || bytes / kMostCompression <= held) return {};
    return {RLX_INVALID_PLAN,
            text_of("plan ", quoted(view_.file_.path()), " is a sparse file: its sections besides ",
                    "weights and text have ", bytes, " bytes, the file system keeps ", held,
                    " for all of it")};
  }

  Status load_sections() {
    RLX_RETURN_IF_ERROR(check_held());
    for (uint32_t i = 0; i < view_.header_.section_count && !faults_.full(); ++i) {
      const PlanSection& section = view_.header_.sections[i];
      if (section.kind == kRegionsSection) {
        std::vector<std::byte> count;
        RLX_RETURN_IF_ERROR(load_section(section, count));
        continue;
      }
      switch (static_cast<SectionKind>(section.kind)) {
        case SectionKind::Index:
          RLX_RETURN_IF_ERROR(load_section(section, view_.index_bytes_));
          break;
        case SectionKind::Params:
          RLX_RETURN_IF_ERROR(load_section(section, view_.params_));
          break;
        case SectionKind::Code:
          RLX_RETURN_IF_ERROR(load_section(section, view_.code_));
          break;
        case SectionKind::Debug:
          RLX_RETURN_IF_ERROR(load_section(section, view_.debug_bytes_));
          break;
        case SectionKind::Weights:
          view_.weights_offset_ = section.offset_bytes;
          view_.weights_bytes_ = section.size_bytes;
          if (check_weights_) RLX_RETURN_IF_ERROR(check_weights(section));
          break;
        case SectionKind::Text:
          view_.text_ = section;
          break;
        default:
          break;  // a section of a newer minor, not critical
      }
    }
    return {};
  }

  Status load_section(const PlanSection& section, std::vector<std::byte>& bytes) {
    bytes.resize(section.size_bytes);
    RLX_RETURN_IF_ERROR(read(section.offset_bytes, bytes));
    verify_section_checksum(section, XXH3_64bits(bytes.data(), bytes.size()), faults_);
    return {};
  }

  Status check_weights(const PlanSection& section) {
    // XXH3_state_t wants 64-byte alignment, which this type asks for itself.
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    RLX_RETURN_IF_ERROR(for_each_chunk(section, [&state](std::span<const std::byte> part) {
      XXH3_64bits_update(&state, part.data(), part.size());
    }));
    verify_section_checksum(section, XXH3_64bits_digest(&state), faults_);
    return {};
  }

  Status read(uint64_t offset_bytes, std::span<std::byte> destination) const {
    if (view_.file_.is_open()) return view_.file_.read(offset_bytes, destination);
    if (!destination.empty())
      std::memcpy(destination.data(), view_.memory_.data() + offset_bytes, destination.size());
    return {};
  }

  PlanView& view_;
  const uint64_t size_bytes_;
  const bool check_weights_;
  const std::string weights_folder_;
  const TrustPolicy trust_;
  std::vector<std::byte> page_;  // of the header
  Faults faults_;
};

namespace {

Status refusal(const std::string& place, const VerifyFault& fault) {
  const bool version = fault.rule == VerifyRule::MajorVersion;
  return {version ? RLX_UNSUPPORTED_VERSION : RLX_INVALID_PLAN,
          text_of(place, ": ", fault.message)};
}

}  // namespace

Status PlanView::open_file(const std::string& path, const PlanOptions& options,
                           std::shared_ptr<const PlanView>& view) {
  std::shared_ptr<PlanView> opened;
  std::vector<VerifyFault> faults;
  RLX_RETURN_IF_ERROR(PlanLoader::load_file(path,
                                            {.check_weights = options.check_weights,
                                             .weights_folder = options.weights_folder,
                                             .trust = options.trust},
                                            opened, faults));
  if (!faults.empty()) return refusal(text_of("plan ", quoted(path)), faults.front());
  view = std::move(opened);
  return {};
}

Status PlanView::open_memory(std::span<const std::byte> bytes, const PlanOptions& options,
                             std::shared_ptr<const PlanView>& view) {
  std::shared_ptr<PlanView> opened;
  VerifyReport report;
  const VerifyOptions verify{.check_weights = options.check_weights,
                             .weights_folder = options.weights_folder,
                             .trust = options.trust};
  RLX_RETURN_IF_ERROR(PlanLoader::load_memory(bytes, options.copy_memory, verify, opened, report));
  if (!report.faults.empty()) return refusal("plan in memory", report.faults.front());
  view = std::move(opened);
  return {};
}

Status PlanView::with_index(std::shared_ptr<const PlanView> plan, std::vector<std::byte> index,
                            std::shared_ptr<const PlanView>& view) {
  std::vector<VerifyFault> faults;
  std::shared_ptr<PlanView> made =
      PlanLoader::load_index(std::move(plan), std::move(index), faults);
  if (!faults.empty()) return refusal("plan with another index", faults.front());
  view = std::move(made);
  return {};
}

Status PlanView::open_header(std::span<const std::byte> first_page, PlanHeader& header) {
  if (first_page.size() < kPlanHeaderBytes) {
    return {RLX_INVALID_ARGUMENT, text_of("a preflight needs the first ", kPlanHeaderBytes,
                                          " bytes of a plan, got ", first_page.size())};
  }
  first_page = first_page.first(kPlanHeaderBytes);
  PlanHeader copy;
  std::memcpy(&copy, first_page.data(), sizeof copy);
  Faults faults(1);
  const bool is_ours =
      std::memcmp(copy.magic, kPlanMagic, sizeof kPlanMagic) == 0 && copy.major == kPlanMajor;
  const uint64_t checksum = header_checksum(first_page);
  if (is_ours && checksum != copy.header_checksum) {
    faults.add(VerifyRule::HeaderChecksum, "the header was altered: its checksum is ", checksum,
               ", recorded is ", copy.header_checksum);
  } else {
    verify_header(copy, copy.file_bytes, faults);
  }
  if (!faults.empty()) return refusal("plan header", faults.list().front());
  header = copy;
  return {};
}

VerifyReport verify_plan_report(std::span<const std::byte> plan, const VerifyOptions& options) {
  std::shared_ptr<PlanView> view;
  VerifyReport report;
  // Reading from memory cannot fail.
  (void)PlanLoader::load_memory(plan, false, options, view, report);
  return report;
}

std::vector<VerifyFault> verify_plan(std::span<const std::byte> plan,
                                     const VerifyOptions& options) {
  return verify_plan_report(plan, options).faults;
}

}  // namespace rlx
