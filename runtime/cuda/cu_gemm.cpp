// SPDX-License-Identifier: Apache-2.0
// Descriptions, choice of algorithms, launches.
#include "runtime/cuda/cu_gemm.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/cuda/cu_graph.h"
#include "schema/plan_header.h"
#include "schema/rounding.h"

namespace rlx::cuda {
namespace {

// Positions of a product's relocations (plan.fbs).
enum class Operand : uint32_t { A = 0, B = 8, Bias = 16, Residual = 24, Y = 32, Workspace = 40 };

// By dtype.def's numbers; -1 where the library computes no such products.
int library_type(uint8_t dtype) {
  constexpr std::array<int, 4> kTypes = {CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF, CUDA_R_64F};
  return dtype < kTypes.size() ? kTypes[dtype] : -1;
}

struct EpilogueRow {
  uint32_t library;
  bool has_bias;
};
// By fb::GemmEpilogue.
constexpr std::array<EpilogueRow, 6> kEpilogues = {{
    {CUBLASLT_EPILOGUE_DEFAULT, false},
    {CUBLASLT_EPILOGUE_BIAS, true},
    {CUBLASLT_EPILOGUE_RELU, false},
    {CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_BIAS, true},
    {CUBLASLT_EPILOGUE_GELU, false},
    {CUBLASLT_EPILOGUE_GELU | CUBLASLT_EPILOGUE_BIAS, true},
}};

const EpilogueRow& epilogue_of(const fb::LibraryGemm& gemm) {
  return kEpilogues[static_cast<size_t>(gemm.epilogue())];
}

int compute_type(const fb::LibraryGemm& gemm) {
  if (library_type(gemm.y_dtype()) == CUDA_R_64F) return CUBLAS_COMPUTE_64F;
  return gemm.compute() == fb::GemmCompute::Tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                 : CUBLAS_COMPUTE_32F;
}

// Factors of the product and of the residual, in the type in which the library scales.
union Scale {
  float f32;
  double f64;
};
Scale scale_of(const fb::LibraryGemm& gemm, bool one) {
  Scale scale;
  if (library_type(gemm.y_dtype()) == CUDA_R_64F) {
    scale.f64 = one ? 1 : 0;
  } else {
    scale.f32 = one ? 1 : 0;
  }
  return scale;
}

const fb::Relocation* relocation_at(const fb::Entry& entry, const fb::Step& step, Operand operand) {
  for (const fb::Relocation& relocation : PlanView::relocations(entry, step)) {
    if (relocation.position() == static_cast<uint32_t>(operand)) return &relocation;
  }
  return nullptr;
}

// What every address that an operand can have is a multiple of: segments begin at multiples of
// kArenaAlignmentBytes, the caller's buffers at multiples of kIoAlignmentBytes.
uint32_t alignment_of(const fb::Entry& entry, const fb::Relocation* relocation) {
  if (relocation == nullptr) return kArenaAlignmentBytes;
  const fb::Value& value = PlanView::value(entry, relocation->value());
  const bool is_io = value.segment() == fb::Segment::Io;
  const uint64_t offset = relocation->offset_bytes() + (is_io ? 0 : value.offset_bytes());
  const uint64_t base = is_io ? kIoAlignmentBytes : kArenaAlignmentBytes;
  return static_cast<uint32_t>(offset == 0 ? base : std::min(base, offset & (~offset + 1)));
}

template <typename Value>
Status set_product(const BlasLibrary& library, cublasLtMatmulDesc_t product, int attribute,
                   const Value& value) {
  return library.check(
      library.api.cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value),
      "cublasLtMatmulDescSetAttribute");
}

// A descriptor belongs to one launch: it holds the bias' address.
Status create_product(const BlasLibrary& library, const fb::LibraryGemm& gemm, CUdeviceptr bias,
                      OwnedProduct& product) {
  const int scale_type = library_type(gemm.y_dtype()) == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F;
  cublasLtMatmulDesc_t handle = nullptr;
  RLX_RETURN_IF_ERROR(
      library.check(library.api.cublasLtMatmulDescCreate(&handle, compute_type(gemm), scale_type),
                    "cublasLtMatmulDescCreate"));
  product = OwnedProduct(library, handle);
  const int32_t first = gemm.b_transposed() ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int32_t second = gemm.a_transposed() ? CUBLAS_OP_T : CUBLAS_OP_N;
  RLX_RETURN_IF_ERROR(set_product(library, handle, CUBLASLT_MATMUL_DESC_TRANSA, first));
  RLX_RETURN_IF_ERROR(set_product(library, handle, CUBLASLT_MATMUL_DESC_TRANSB, second));
  const EpilogueRow& epilogue = epilogue_of(gemm);
  RLX_RETURN_IF_ERROR(
      set_product(library, handle, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue.library));
  if (!epilogue.has_bias) return {};
  return set_product(library, handle, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
}

struct MatrixShape {
  uint8_t dtype;
  uint64_t rows;  // of our row-major matrix as it is stored
  uint64_t columns;
  uint64_t pitch;
  uint64_t batch_stride;
};

Status create_layout(const BlasLibrary& library, const MatrixShape& shape, uint64_t batch,
                     OwnedLayout& layout) {
  cublasLtMatrixLayout_t handle = nullptr;
  RLX_RETURN_IF_ERROR(library.check(
      library.api.cublasLtMatrixLayoutCreate(&handle, library_type(shape.dtype), shape.columns,
                                             shape.rows, static_cast<int64_t>(shape.pitch)),
      "cublasLtMatrixLayoutCreate"));
  layout = OwnedLayout(library, handle);
  if (batch <= 1) return {};
  const auto count = static_cast<int32_t>(batch);
  const auto stride = static_cast<int64_t>(shape.batch_stride);
  RLX_RETURN_IF_ERROR(
      library.check(library.api.cublasLtMatrixLayoutSetAttribute(
                        handle, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
                    "cublasLtMatrixLayoutSetAttribute"));
  return library.check(
      library.api.cublasLtMatrixLayoutSetAttribute(
          handle, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
      "cublasLtMatrixLayoutSetAttribute");
}

// With `lines` instead of the product's own.
Status create_layouts(const BlasLibrary& library, const fb::LibraryGemm& gemm, uint64_t lines,
                      PreparedGemm& prepared) {
  const auto stored = [](bool transposed, uint64_t rows, uint64_t columns, uint8_t dtype,
                         uint64_t pitch, uint64_t batch_stride) {
    return MatrixShape{.dtype = dtype,
                       .rows = transposed ? columns : rows,
                       .columns = transposed ? rows : columns,
                       .pitch = pitch,
                       .batch_stride = batch_stride};
  };
  RLX_RETURN_IF_ERROR(create_layout(library,
                                    stored(gemm.a_transposed(), lines, gemm.k(), gemm.a_dtype(),
                                           gemm.a_pitch(), gemm.a_batch_stride()),
                                    gemm.batch(), prepared.a));
  RLX_RETURN_IF_ERROR(create_layout(library,
                                    stored(gemm.b_transposed(), gemm.k(), gemm.n(), gemm.b_dtype(),
                                           gemm.b_pitch(), gemm.b_batch_stride()),
                                    gemm.batch(), prepared.b));
  const bool residual = gemm.has_residual();
  RLX_RETURN_IF_ERROR(
      create_layout(library,
                    stored(false, lines, gemm.n(), gemm.y_dtype(),
                           residual ? gemm.residual_pitch() : gemm.y_pitch(),
                           residual ? gemm.residual_batch_stride() : gemm.y_batch_stride()),
                    gemm.batch(), prepared.residual));
  return create_layout(
      library,
      stored(false, lines, gemm.n(), gemm.y_dtype(), gemm.y_pitch(), gemm.y_batch_stride()),
      gemm.batch(), prepared.y);
}

template <typename Value>
Status set_preference(const BlasLibrary& library, cublasLtMatmulPreference_t preference,
                      int attribute, const Value& value) {
  return library.check(
      library.api.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
      "cublasLtMatmulPreferenceSetAttribute");
}

struct AlignmentRow {
  int attribute;
  Operand operand;
};
constexpr AlignmentRow kAlignments[] = {
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, Operand::B},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, Operand::A},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, Operand::Residual},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, Operand::Y}};

Status create_preference(const BlasLibrary& library, const fb::Entry& entry, const fb::Step& step,
                         const fb::LibraryGemm& gemm, OwnedPreference& preference) {
  cublasLtMatmulPreference_t handle = nullptr;
  RLX_RETURN_IF_ERROR(library.check(library.api.cublasLtMatmulPreferenceCreate(&handle),
                                    "cublasLtMatmulPreferenceCreate"));
  preference = OwnedPreference(library, handle);
  RLX_RETURN_IF_ERROR(set_preference(library, handle, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                     gemm.workspace_bytes()));
  // Parts of a split k are summed in the compute type and in a fixed order.
  RLX_RETURN_IF_ERROR(set_preference(library, handle, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                     CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const AlignmentRow& row : kAlignments) {
    const fb::Relocation* relocation = relocation_at(entry, step, row.operand);
    if (relocation == nullptr && row.operand == Operand::Residual)
      relocation = relocation_at(entry, step, Operand::Y);
    RLX_RETURN_IF_ERROR(
        set_preference(library, handle, row.attribute, alignment_of(entry, relocation)));
  }
  return {};
}

// For questions about a product before its bias has an address: one of the same alignment.
CUdeviceptr stand_in_bias(const fb::Entry& entry, uint32_t step) {
  return alignment_of(entry, relocation_at(entry, PlanView::steps(entry)[step], Operand::Bias));
}

const fb::LibraryGemm& gemm_of(const fb::Entry& entry, const fb::Step& step) {
  return *entry.gemms()->Get(step.kernel());
}

bool has_gemm(const fb::Entry& entry) {
  const std::span<const fb::Step> steps = PlanView::steps(entry);
  return std::any_of(steps.begin(), steps.end(),
                     [](const fb::Step& step) { return step.kind() == fb::StepKind::LibraryGemm; });
}

// The next of 2^n and 3 * 2^n.
uint64_t lines_asked_for(uint64_t lines) {
  const uint64_t step = std::max<uint64_t>(std::bit_floor(lines) / 2, 1);
  return ceil_div(lines, step) * step;
}

std::string shape_text(const fb::LibraryGemm& gemm) {
  return text_of(gemm.batch(), " products of ", gemm.m(), " x ", gemm.k(), " and ", gemm.k(), " x ",
                 gemm.n());
}

}  // namespace

Status GemmSet::create(Context& context, const PlanView& plan, bool require_tuned, GemmSet& set) {
  std::vector<const fb::Entry*> entries = plan.records(fb::TargetKind::Cuda);
  std::erase_if(entries, [](const fb::Entry* entry) { return !has_gemm(*entry); });
  if (entries.empty()) return {};

  GemmSet made;
  RLX_RETURN_IF_ERROR(BlasLibrary::open(context.objects(), made.library_));
  made.library_text_ = made.library_->text();
  for (const fb::Entry* entry : entries)
    RLX_RETURN_IF_ERROR(made.add(context, plan, *entry, require_tuned));
  set = std::move(made);
  return {};
}

Status GemmSet::at_binding(Context& context, const PlanView& plan, const fb::Entry& entry,
                           GemmSet& set) const {
  GemmSet made;
  made.library_ = library_;
  made.library_text_ = library_text_;
  made.answers_ = answers_;
  made.is_binding_ = true;
  if (has_gemm(entry)) RLX_RETURN_IF_ERROR(made.add(context, plan, entry, false));
  set = std::move(made);
  return {};
}

Status GemmSet::add(Context& context, const PlanView& plan, const fb::Entry& entry,
                    bool require_tuned) {
  const std::span<const fb::Step> steps = PlanView::steps(entry);
  for (uint32_t s = 0; s < steps.size(); ++s) {
    if (steps[s].kind() != fb::StepKind::LibraryGemm) continue;
    const Key key{.entry = &entry, .step = s};
    PreparedGemm& gemm = gemms_[key];
    order_.push_back(key);
    const Status status = prepare(entry, s, context.info.name, gemm);
    if (!status.ok())
      return {status.code(), text_of(plan.describe_step(entry, s), ": ", status.message())};
    if (require_tuned && !gemm.tuned) {
      return unsuitable(text_of(plan.describe_step(entry, s), " has no algorithm chosen for ",
                                context.info.name, " and ", library_text(),
                                gemm.note.empty() ? "" : ": ", gemm.note,
                                "; run rlxc tune on this device"));
    }
    texts_[&steps[s]] = text_of(library_text(), gemm.tuned ? ", tuned" : ", by its heuristic",
                                gemm.note.empty() ? "" : ": ", gemm.note);
  }
  return {};
}

Status GemmSet::prepare(const fb::Entry& entry, uint32_t step, const std::string& device,
                        PreparedGemm& gemm) {
  const fb::LibraryGemm& record = gemm_of(entry, PlanView::steps(entry)[step]);
  for (const uint8_t dtype : {record.a_dtype(), record.b_dtype(), record.y_dtype()}) {
    if (library_type(dtype) < 0)
      return unsuitable("cuBLASLt computes products of f32, f16, bf16 and f64 here");
  }
  gemm.record = &record;
  RLX_RETURN_IF_ERROR(create_layouts(*library_, record, record.m(), gemm));
  return choose(entry, step, device, gemm);
}

GemmSet::Question GemmSet::question_of(const fb::Entry& entry, uint32_t step, uint64_t lines) {
  const fb::Step& record = PlanView::steps(entry)[step];
  const fb::LibraryGemm& gemm = gemm_of(entry, record);
  Question question = {lines,
                       gemm.n(),
                       gemm.k(),
                       gemm.batch(),
                       gemm.a_dtype(),
                       gemm.b_dtype(),
                       gemm.y_dtype(),
                       static_cast<uint64_t>(gemm.compute()),
                       static_cast<uint64_t>(gemm.epilogue()),
                       gemm.a_transposed(),
                       gemm.b_transposed(),
                       gemm.has_residual(),
                       gemm.a_pitch(),
                       gemm.b_pitch(),
                       gemm.y_pitch(),
                       gemm.residual_pitch(),
                       gemm.a_batch_stride(),
                       gemm.b_batch_stride(),
                       gemm.y_batch_stride(),
                       gemm.residual_batch_stride(),
                       gemm.workspace_bytes()};
  for (const Operand operand :
       {Operand::A, Operand::B, Operand::Bias, Operand::Residual, Operand::Y})
    question.push_back(alignment_of(entry, relocation_at(entry, record, operand)));
  return question;
}

Status GemmSet::is_taken(const fb::Entry& entry, uint32_t step, const PreparedGemm& gemm,
                         bool& taken) const {
  OwnedProduct product;
  RLX_RETURN_IF_ERROR(create_product(*library_, *gemm.record, stand_in_bias(entry, step), product));
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = library_->api.cublasLtMatmulAlgoCheck(
      library_->handle, product.get(), gemm.b.get(), gemm.a.get(), gemm.residual.get(),
      gemm.y.get(), &gemm.algorithm, &result);
  taken = status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= gemm.record->workspace_bytes();
  return {};
}

Status GemmSet::ask(const fb::Entry& entry, uint32_t step, uint64_t lines,
                    PreparedGemm& gemm) const {
  const std::lock_guard lock(answers_->mutex);
  const Question question = question_of(entry, step, lines);
  const auto known = answers_->algorithms.find(question);
  if (known != answers_->algorithms.end()) {
    gemm.algorithm = known->second;
    return {};
  }
  PreparedGemm asked;
  asked.record = gemm.record;
  RLX_RETURN_IF_ERROR(create_layouts(*library_, *gemm.record, lines, asked));
  std::vector<cublasLtMatmulHeuristicResult_t> results;
  RLX_RETURN_IF_ERROR(query(entry, step, asked, 1, results));
  gemm.algorithm = answers_->algorithms[question] = results.front().algo;
  return {};
}

Status GemmSet::choose_for_binding(const fb::Entry& entry, uint32_t step, PreparedGemm& gemm) {
  const uint64_t lines = gemm.record->m();
  const auto [own, is_new] = of_binding_.try_emplace(question_of(entry, step, lines));
  if (is_new) {
    RLX_RETURN_IF_ERROR(ask(entry, step, lines_asked_for(lines), gemm));
    bool taken = false;
    RLX_RETURN_IF_ERROR(is_taken(entry, step, gemm, taken));
    if (!taken) RLX_RETURN_IF_ERROR(ask(entry, step, lines, gemm));
    own->second = gemm.algorithm;
  }
  gemm.algorithm = own->second;
  return {};
}

Status GemmSet::choose(const fb::Entry& entry, uint32_t step, const std::string& device,
                       PreparedGemm& gemm) {
  const fb::LibraryGemm& record = *gemm.record;
  const auto* stored = record.algorithm();
  if (stored != nullptr && stored->size() == sizeof gemm.algorithm) {
    const std::string_view tuned_device = PlanView::text(record.tuned_device());
    const std::string_view tuned_library = PlanView::text(record.tuned_library());
    if (tuned_device == device && tuned_library == library_text()) {
      std::memcpy(&gemm.algorithm, stored->data(), sizeof gemm.algorithm);
      RLX_RETURN_IF_ERROR(is_taken(entry, step, gemm, gemm.tuned));
      if (gemm.tuned) return {};
      gemm.note = "the library does not know the algorithm that the plan names";
    } else {
      gemm.note = text_of("tuned on ", tuned_device, " with ", tuned_library);
    }
  }
  // Batches lie apart by strides that leave no room for more lines.
  return is_binding_ && record.batch() <= 1 ? choose_for_binding(entry, step, gemm)
                                            : ask(entry, step, record.m(), gemm);
}

Status GemmSet::query(const fb::Entry& entry, uint32_t step, const PreparedGemm& gemm,
                      uint32_t most, std::vector<cublasLtMatmulHeuristicResult_t>& results) const {
  const BlasLibrary& library = *library_;
  const fb::LibraryGemm& record = *gemm.record;
  OwnedProduct product;
  OwnedPreference preference;
  RLX_RETURN_IF_ERROR(create_product(library, record, stand_in_bias(entry, step), product));
  RLX_RETURN_IF_ERROR(
      create_preference(library, entry, PlanView::steps(entry)[step], record, preference));
  std::vector<cublasLtMatmulHeuristicResult_t> found(most);
  int count = 0;
  const cublasStatus_t status = library.api.cublasLtMatmulAlgoGetHeuristic(
      library.handle, product.get(), gemm.b.get(), gemm.a.get(), gemm.residual.get(), gemm.y.get(),
      preference.get(), static_cast<int>(most), found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0)) {
    return unsuitable(text_of(library_text(), " has no way to compute ", shape_text(record),
                              " with these pitches, alignments and epilogue in ",
                              bytes_text(record.workspace_bytes()), " of workspace"));
  }
  RLX_RETURN_IF_ERROR(library.check(status, "cublasLtMatmulAlgoGetHeuristic"));
  found.resize(static_cast<size_t>(count));
  std::erase_if(found, [](const cublasLtMatmulHeuristicResult_t& result) {
    return result.state != CUBLAS_STATUS_SUCCESS;
  });
  if (found.empty())
    return unsuitable(text_of(library_text(), " offers no algorithm for ", shape_text(record)));
  results = std::move(found);
  return {};
}

Status GemmSet::offers(const fb::Entry& entry, uint32_t step, uint32_t most,
                       std::vector<cublasLtMatmulHeuristicResult_t>& results) const {
  return query(entry, step, at(entry, step), most, results);
}

Status GemmSet::launch(const LinkedEntry& linked, uint32_t step, CUstream stream) const {
  return launch(linked, step, at(*linked.entry, step).algorithm, stream);
}

Status GemmSet::launch(const LinkedEntry& linked, uint32_t step,
                       const cublasLtMatmulAlgo_t& algorithm, CUstream stream) const {
  const PreparedGemm& gemm = at(*linked.entry, step);
  const fb::Step& record = PlanView::steps(*linked.entry)[step];
  const auto address = [&](Operand operand) -> CUdeviceptr {
    const fb::Relocation* relocation = relocation_at(*linked.entry, record, operand);
    return relocation == nullptr ? 0 : linked.address(*relocation);
  };
  const auto pointer = [&](Operand operand) { return reinterpret_cast<void*>(address(operand)); };
  OwnedProduct product;
  RLX_RETURN_IF_ERROR(create_product(*library_, *gemm.record, address(Operand::Bias), product));
  const Scale one = scale_of(*gemm.record, true);
  const Scale residual_scale = scale_of(*gemm.record, gemm.record->has_residual());
  const void* residual =
      gemm.record->has_residual() ? pointer(Operand::Residual) : pointer(Operand::Y);
  return library_->check(
      library_->api.cublasLtMatmul(library_->handle, product.get(), &one, pointer(Operand::B),
                                   gemm.b.get(), pointer(Operand::A), gemm.a.get(), &residual_scale,
                                   residual, gemm.residual.get(), pointer(Operand::Y), gemm.y.get(),
                                   &algorithm, pointer(Operand::Workspace),
                                   gemm.record->workspace_bytes(), stream),
      "cublasLtMatmul");
}

const std::string& GemmSet::text_of_step(const fb::Step& step) const {
  const auto text = texts_.find(&step);
  return text == texts_.end() ? library_text_ : text->second;
}

std::vector<GemmReport> GemmSet::reports() const {
  std::vector<GemmReport> reports;
  for (const Key& key : order_) {
    const PreparedGemm& gemm = at(*key.entry, key.step);
    reports.push_back({.entry = std::string(PlanView::text(key.entry->name())),
                       .step = key.step,
                       .tuned = gemm.tuned,
                       .note = gemm.note});
  }
  return reports;
}

}  // namespace rlx::cuda
