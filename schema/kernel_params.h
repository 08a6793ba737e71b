// SPDX-License-Identifier: Apache-2.0
// Params of every kernel, read unchanged by C++, GLSL (scalar layout) and CUDA. The bytes of a struct are the push constants
// on Vulkan and the kernel argument on CUDA: at most 128, no implicit padding. An rlx_ptr is a 64-bit device address; in the
// plan it is a relocation. Sizes, strides and flags known to the compiler are specializations, never fields.
//
// index_errors, always last: the step's own word of the index_errors segment, to which the kernel adds 1 for every data-dependent
// index that lies outside its tensor. 0 in forms of the kernel that read no such index, or leave the count to another step.
#ifndef RLX_KERNEL_PARAMS_H
#define RLX_KERNEL_PARAMS_H

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
typedef unsigned long long rlx_ptr;
typedef unsigned int rlx_uint;
#elif defined(__cplusplus)
#include <cstdint>
using rlx_ptr = std::uint64_t;
using rlx_uint = std::uint32_t;
#else
#define rlx_ptr uint64_t
#define rlx_uint uint
#endif

// Threads of a subgroup whose code has cooperative matrices, which it shares.
#define RLX_MATRIX_SUBGROUP 32

#define RLX_REGION_BUFFERS 16
#define RLX_REGION_INDEX_ERRORS (RLX_REGION_BUFFERS - 1)

// A generated elementwise region: buffers[0] is the output, the inputs follow in the order of the region's operands. Where the
// region reads indices, its last buffer is index_errors.
struct RegionParams {
  rlx_ptr buffers[RLX_REGION_BUFFERS];
};

#define RLX_EXTENSION_OPERANDS 15

// The kernel of a registered extension: its inputs, then its outputs, in the order of its description.
struct ExtensionParams {
  rlx_ptr operands[RLX_EXTENSION_OPERANDS];
  rlx_ptr index_errors;
};

// One input, one output.
struct CopyParams {
  rlx_ptr x;
  rlx_ptr y;
};

// Repeats the two words over `bytes` bytes of y. 64-bit values stand as low and high word.
struct SplatParams {
  rlx_ptr y;
  rlx_uint bytes_low;
  rlx_uint bytes_high;
  rlx_uint word0;
  rlx_uint word1;
};

// Random values of one weight: every weight shares the kernel of its dtype and distribution. value0..3, floats by their bits:
// uniform: low, high - low, high, largest value below high; normal: mean, std; integers: low (two words), high - low (two words).
struct RandomParams {
  rlx_ptr y;
  rlx_uint count_low;
  rlx_uint count_high;
  rlx_uint seed_low;
  rlx_uint seed_high;
  rlx_uint stream;
  rlx_uint step;
  rlx_uint value0;
  rlx_uint value1;
  rlx_uint value2;
  rlx_uint value3;
};

// One element each. index_errors counts where x is not what it must be.
struct AssertionParams {
  rlx_ptr x;
  rlx_ptr y;
  rlx_ptr index_errors;
};

struct GatherParams {
  rlx_ptr x;
  rlx_ptr index;
  rlx_ptr y;
  rlx_ptr index_errors;
};

// Reduction with a generated elementwise prologue: operands are the prologue's inputs, partial is scratch of the two-stage form.
struct ReduceParams {
  rlx_ptr y;
  rlx_ptr partial;
  rlx_ptr operands[14];
};

// layer_norm and rms_norm; gamma, beta, mean and inv_std are 0 where absent.
struct NormParams {
  rlx_ptr x;
  rlx_ptr gamma;
  rlx_ptr beta;
  rlx_ptr y;
  rlx_ptr mean;
  rlx_ptr inv_std;
};

// Mean (the sum of center and rest) and spread of sets of elements; what is not wanted is 0. partial is scratch of the form that
// takes a set in several parts: read by its second step, where x is 0, and written by its first.
struct MomentsParams {
  rlx_ptr x;
  rlx_ptr partial;
  rlx_ptr center;
  rlx_ptr rest;
  rlx_ptr inv_std;
  rlx_ptr variance;
};

// y = act(a * b + bias) + residual; bias and residual are 0 where absent; partial is scratch of the split-k form.
struct MatmulParams {
  rlx_ptr a;
  rlx_ptr b;
  rlx_ptr bias;
  rlx_ptr residual;
  rlx_ptr y;
  rlx_ptr partial;
};

// mask, bias, kv_len, q_start, lse and sinks are 0 where absent.
struct AttentionParams {
  rlx_ptr q;
  rlx_ptr k;
  rlx_ptr v;
  rlx_ptr mask;
  rlx_ptr bias;
  rlx_ptr kv_len;
  rlx_ptr q_start;
  rlx_ptr y;
  rlx_ptr lse;
  rlx_ptr sinks;
};

struct RopeParams {
  rlx_ptr x;
  rlx_ptr cos_table;
  rlx_ptr sin_table;
  rlx_ptr positions;
  rlx_ptr y;
  rlx_ptr index_errors;
};

// y = act(conv(x, w) + bias) + residual; bias and residual are 0 where absent.
struct ConvParams {
  rlx_ptr x;
  rlx_ptr w;
  rlx_ptr bias;
  rlx_ptr residual;
  rlx_ptr y;
};

// indices is 0 where absent.
struct PoolParams {
  rlx_ptr x;
  rlx_ptr y;
  rlx_ptr indices;
};

// Rows of x go into the cache y at the positions that `positions` holds. The form with a rotary embedding takes keys in x,
// queries in q and values in v: y takes the rotated keys, y_v the values, y_q the rotated queries; all of it is 0 where absent.
struct AppendParams {
  rlx_ptr x;
  rlx_ptr positions;
  rlx_ptr y;
  rlx_ptr q;
  rlx_ptr v;
  rlx_ptr cos_table;
  rlx_ptr sin_table;
  rlx_ptr y_q;
  rlx_ptr y_v;
  rlx_ptr index_errors;
};

// matmul on tensor cores. gamma and beta: normalisation over the rows of the result, 0 where absent; y_norm takes the
// normalised rows where both they and the plain ones are wanted; partial is scratch of the split-k form.
struct MatmulMmaParams {
  rlx_ptr a;
  rlx_ptr b;
  rlx_ptr bias;
  rlx_ptr residual;
  rlx_ptr gamma;
  rlx_ptr beta;
  rlx_ptr y;
  rlx_ptr y_norm;
  rlx_ptr partial;
};

// matmul in large tiles. b2: second matrix of a gated pair, whose product multiplies the activated one; bias, bias2 and residual
// are 0 where absent; partial is scratch.
struct MatmulWgmmaParams {
  rlx_ptr a;
  rlx_ptr b;
  rlx_ptr b2;
  rlx_ptr bias;
  rlx_ptr bias2;
  rlx_ptr residual;
  rlx_ptr y;
  rlx_ptr partial;
};

// Few vectors times a streamed matrix. gamma: rms_norm of x before the product; w2 and bias2: second matrix of a gated pair, whose
// product multiplies the activated one. The form whose result is queries, keys and values rotates the first two by cos_table and
// sin_table at `positions`, and appends keys and values to the caches y_k and y_v. All but x, w and y are 0 where absent.
struct MatvecStreamParams {
  rlx_ptr x;
  rlx_ptr gamma;
  rlx_ptr w;
  rlx_ptr w2;
  rlx_ptr bias;
  rlx_ptr bias2;
  rlx_ptr residual;
  rlx_ptr y;
  rlx_ptr cos_table;
  rlx_ptr sin_table;
  rlx_ptr positions;
  rlx_ptr y_k;
  rlx_ptr y_v;
};

// attention of few queries; partial is scratch of the form that splits the keys.
struct AttentionDecodeParams {
  rlx_ptr q;
  rlx_ptr k;
  rlx_ptr v;
  rlx_ptr mask;
  rlx_ptr bias;
  rlx_ptr kv_len;
  rlx_ptr q_start;
  rlx_ptr y;
  rlx_ptr lse;
  rlx_ptr partial;
  rlx_ptr sinks;
};

// conv on tensor cores; partial is scratch of the split-k form.
struct ConvMmaParams {
  rlx_ptr x;
  rlx_ptr w;
  rlx_ptr bias;
  rlx_ptr residual;
  rlx_ptr y;
  rlx_ptr partial;
};

// Rows of updates combined into copies of x at the places that index names; x is 0 where the base is zeros. order and scratch hold
// the updates sorted by place.
struct ScatterParams {
  rlx_ptr x;
  rlx_ptr index;
  rlx_ptr updates;
  rlx_ptr y;
  rlx_ptr order;
  rlx_ptr scratch;
  rlx_ptr index_errors;
};

// Running combination along an axis; indices (of the running extreme, or of the elements found) and count are 0 where absent;
// partial is scratch of the form in several parts.
struct ScanParams {
  rlx_ptr x;
  rlx_ptr y;
  rlx_ptr indices;
  rlx_ptr count;
  rlx_ptr partial;
};

// Boxes of images and classes, their scores and the order in which they are looked at; those that are kept.
struct SuppressParams {
  rlx_ptr boxes;
  rlx_ptr scores;
  rlx_ptr order;
  rlx_ptr kept;
};

// Cells of boxes of images.
struct RoiAlignParams {
  rlx_ptr x;
  rlx_ptr rois;
  rlx_ptr images;
  rlx_ptr y;
  rlx_ptr index_errors;
};

// One layer of a recurrent network. bias, lengths, peephole and, where states begin as zeros, h0 and c0 are 0; h and c are the states
// behind the steps, 0 where nobody wants them. step: of the form that takes one alone. exchange: of recurrence_together.
struct RecurrenceParams {
  rlx_ptr x;
  rlx_ptr w;
  rlx_ptr y;
  rlx_ptr bias;
  rlx_ptr lengths;
  rlx_ptr peephole;
  rlx_ptr h0;
  rlx_ptr c0;
  rlx_ptr h;
  rlx_ptr c;
  rlx_uint step;
  rlx_uint padding;  // read by no kernel
  rlx_ptr index_errors;
  rlx_ptr exchange;
};

// Ordering along an axis, or a draw from the first of each row; values or indices are 0 where absent; keys, places and held_step are
// scratch; the step's are 0 where nothing is drawn.
struct SortParams {
  rlx_ptr x;
  rlx_ptr values;
  rlx_ptr indices;
  rlx_ptr keys;
  rlx_ptr places;
  rlx_ptr seed;
  rlx_ptr step;
  rlx_ptr held_step;
  rlx_ptr next_step;
};

// Products with weights that are decoded on the way, chosen per row, or both. scale and zero: side tensors of the scheme; index:
// the row's expert; w2 and w3: more lines of w, or the second matrix of a gated pair; gamma: rms_norm of x before the product; all but
// x, w and y are 0 where absent.
struct WeightedMatmulParams {
  rlx_ptr x;
  rlx_ptr w;
  rlx_ptr w2;
  rlx_ptr w3;
  rlx_ptr gamma;
  rlx_ptr scale;
  rlx_ptr zero;
  rlx_ptr index;
  rlx_ptr bias;
  rlx_ptr residual;
  rlx_ptr y;
  rlx_ptr index_errors;
};

// a x = b; factors is scratch.
struct SolveParams {
  rlx_ptr a;
  rlx_ptr b;
  rlx_ptr x;
  rlx_ptr factors;
};

// Taps of each output coordinate along the axis: their input coordinates and weights.
struct ResizeParams {
  rlx_ptr x;
  rlx_ptr taps;
  rlx_ptr weights;
  rlx_ptr y;
};

// Causal convolution along a sequence; bias and state0 are 0 where absent, and so are y or state where a step writes the other.
struct CausalConvParams {
  rlx_ptr x;
  rlx_ptr w;
  rlx_ptr bias;
  rlx_ptr state0;
  rlx_ptr y;
  rlx_ptr state;
};

// A vector of states for each channel. d, z, delta_bias, state0 and state are 0 where absent; partial is scratch of the form that
// takes a sequence in several parts.
struct SelectiveScanParams {
  rlx_ptr x;
  rlx_ptr delta;
  rlx_ptr a;
  rlx_ptr b;
  rlx_ptr c;
  rlx_ptr d;
  rlx_ptr z;
  rlx_ptr delta_bias;
  rlx_ptr state0;
  rlx_ptr y;
  rlx_ptr state;
  rlx_ptr partial;
};

// A matrix of states for each head, which takes in keys and values and is read by queries. g: logarithm of the decay, or with `a` the
// step size whose product with it that is; all but q, k, v and y are 0 where absent; partial is scratch of the form that takes a
// sequence in several parts.
struct LinearRecurrenceParams {
  rlx_ptr q;
  rlx_ptr k;
  rlx_ptr v;
  rlx_ptr g;
  rlx_ptr beta;
  rlx_ptr a;
  rlx_ptr d;
  rlx_ptr z;
  rlx_ptr g_bias;
  rlx_ptr state0;
  rlx_ptr y;
  rlx_ptr state;
  rlx_ptr partial;
};

// Fourier transforms of rows; window, before and after (factors of the elements read and written)
// and response (of the spectrum between two transforms) are 0 where absent.
struct FftParams {
  rlx_ptr x;
  rlx_ptr window;
  rlx_ptr twiddles;
  rlx_ptr before;
  rlx_ptr response;
  rlx_ptr after;
  rlx_ptr y;
};

#endif
