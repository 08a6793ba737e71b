// SPDX-License-Identifier: Apache-2.0
// Operators of the reference IR that nothing in the catalogue expresses, each with its reason.
#include <array>

#include "compiler/import/reference_ir/alias.h"

namespace rlx::reference_ir {
namespace unread {
namespace {

constexpr std::string_view kFactors = "the catalogue has no factorisations of matrices";
constexpr std::string_view kManifold = "the catalogue has no operators on manifolds of matrices";
constexpr std::string_view kCodes = "the bytes of its codes are each backend's own";
constexpr std::string_view kUnpacked =
    "its packed gradients are not expressed: differentiate AdaLayerNorm and GatedResidual "
    "(`--grad`)";

constexpr std::array kAliases = {
    Alias{"Cholesky", kNone, kFactors},
    Alias{"TriangularSolve", kNone, kFactors},
    Alias{"Det", kNone, kFactors},
    Alias{"LogDet", kNone, kFactors},
    Alias{"Svd", kNone, kFactors},
    Alias{"Qr", kNone, kFactors},
    Alias{"Eigh", kNone, kFactors},
    Alias{"EighBackward", kNone, kFactors},
    Alias{"EighBatch", kNone, kFactors},
    Alias{"EighBatchBackward", kNone, kFactors},
    Alias{"BiMap", kNone, kManifold},
    Alias{"ReEig", kNone, kManifold},
    Alias{"ReEigBackward", kNone, kManifold},
    Alias{"LogEig", kNone, kManifold},
    Alias{"LogEigBackward", kNone, kManifold},
    Alias{"SpdBatchNorm", kNone, kManifold},
    Alias{"SpdBatchNormBackwardX", kNone, kManifold},
    Alias{"SpdBatchNormBackwardG", kNone, kManifold},
    Alias{"SpdKarcherMean", kNone, kManifold},
    Alias{"SpdKarcherMeanWeighted", kNone, kManifold},
    Alias{"SpdLogMap", kNone, kManifold},
    Alias{"SpdLogMapBackward", kNone, kManifold},
    Alias{"SpdExpMap", kNone, kManifold},
    Alias{"SpdExpMapBackward", kNone, kManifold},
    Alias{"SpdParallelTransport", kNone, kManifold},
    Alias{"SpdParallelTransportBackward", kNone, kManifold},
    Alias{"SpdMatrixFnBatch", kNone, kManifold},
    Alias{"SpdMatrixFnBatchBackward", kNone, kManifold},
    Alias{"ScaledMatMul", kNone, kCodes},
    Alias{"ScaledQuantize", kNone, kCodes},
    Alias{"ScaledQuantScale", kNone, kCodes},
    Alias{"ScaledDequantize", kNone, kCodes},
    Alias{"DequantGroupedMatMulMlx", kNone,
          "scales and biases beside codes of MLX are not among the schemes of the catalogue"},
    Alias{"FftButterflyStage", kNone,
          "a stage of a transform has no operator: the whole transform is `Fft`"},
    Alias{"PartitionedConv", kNone, "it is a way to compute a convolution: name `Conv`"},
    Alias{"AdaLayerNormBackward", kNone, kUnpacked},
    Alias{"GatedResidualBackward", kNone, kUnpacked},
};

}  // namespace
}  // namespace unread

std::span<const Alias> missing_aliases() {
  return unread::kAliases;
}

}  // namespace rlx::reference_ir
