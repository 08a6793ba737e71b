// SPDX-License-Identifier: Apache-2.0
// The library products of a plan: described to cuBLASLt, their algorithms chosen once at load.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cuda/cu_context.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/plan/plan_view.h"

namespace rlx::cuda {

struct LinkedEntry;

// A product as the library knows it. Row-major matrices are the library's column-major ones
// transposed, so its first operand is our b, its second our a, and its rows are our n.
struct PreparedGemm {
  const fb::LibraryGemm* record = nullptr;
  OwnedLayout a;
  OwnedLayout b;
  OwnedLayout residual;
  OwnedLayout y;
  cublasLtMatmulAlgo_t algorithm{};
  bool tuned = false;
  std::string note;  // as GemmReport's
};

class GemmSet {
 public:
  // Does nothing for a plan without library products. The context is current.
  static Status create(Context& context, const PlanView& plan, bool require_tuned, GemmSet& set);

  // The products of an entry of the same plan at other sizes; `plan` holds the entry. A product is
  // computed by what the library takes for the next 2^n or 3 * 2^n of lines: so it is asked, and
  // loads kernels, for a few of them alone.
  Status at_binding(Context& context, const PlanView& plan, const fb::Entry& entry,
                    GemmSet& set) const;

  // Launches a product on a stream, with the algorithm chosen at load.
  Status launch(const LinkedEntry& linked, uint32_t step, CUstream stream) const;
  // The same with another algorithm.
  Status launch(const LinkedEntry& linked, uint32_t step, const cublasLtMatmulAlgo_t& algorithm,
                CUstream stream) const;
  // Up to `most` algorithms that the library offers for a step, in its own order, with their
  // workspaces.
  Status offers(const fb::Entry& entry, uint32_t step, uint32_t most,
                std::vector<cublasLtMatmulHeuristicResult_t>& results) const;

  [[nodiscard]] std::vector<GemmReport> reports() const;
  // "cuBLASLt 13.0.2, tuned", or by its heuristic and why, for a step of the plan's entries.
  [[nodiscard]] const std::string& text_of_step(const fb::Step& step) const;
  // "cuBLASLt 13.0.2"; "" for a plan without library products.
  [[nodiscard]] const std::string& library_text() const { return library_text_; }

 private:
  struct Key {
    const fb::Entry* entry = nullptr;
    uint32_t step = 0;
    auto operator<=>(const Key&) const = default;
  };

  // What the library's choice for a product depends on, and what it chose: networks have many
  // products of one kind, and asking takes tens of microseconds.
  using Question = std::vector<uint64_t>;
  struct Answers {
    std::mutex mutex;
    std::map<Question, cublasLtMatmulAlgo_t> algorithms;
  };

  Status add(Context& context, const PlanView& plan, const fb::Entry& entry, bool require_tuned);
  Status prepare(const fb::Entry& entry, uint32_t step, const std::string& device,
                 PreparedGemm& gemm);
  Status choose(const fb::Entry& entry, uint32_t step, const std::string& device,
                PreparedGemm& gemm);
  Status choose_for_binding(const fb::Entry& entry, uint32_t step, PreparedGemm& gemm);
  // By the library's heuristic, for the product with `lines` instead of its own.
  Status ask(const fb::Entry& entry, uint32_t step, uint64_t lines, PreparedGemm& gemm) const;
  // Whether the library takes the algorithm for the product, in the plan's workspace.
  Status is_taken(const fb::Entry& entry, uint32_t step, const PreparedGemm& gemm,
                  bool& taken) const;
  static Question question_of(const fb::Entry& entry, uint32_t step, uint64_t lines);
  Status query(const fb::Entry& entry, uint32_t step, const PreparedGemm& gemm, uint32_t most,
               std::vector<cublasLtMatmulHeuristicResult_t>& results) const;
  [[nodiscard]] const PreparedGemm& at(const fb::Entry& entry, uint32_t step) const {
    return gemms_.find({.entry = &entry, .step = step})->second;
  }

  std::shared_ptr<const BlasLibrary> library_;
  std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();  // of the plan
  bool is_binding_ = false;
  std::map<Question, cublasLtMatmulAlgo_t> of_binding_;  // of one: by their own lines
  std::string library_text_;
  std::map<Key, PreparedGemm> gemms_;
  std::vector<Key> order_;  // of the plan
  std::map<const fb::Step*, std::string> texts_;
};

}  // namespace rlx::cuda
