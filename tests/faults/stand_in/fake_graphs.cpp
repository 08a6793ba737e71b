// SPDX-License-Identifier: Apache-2.0
// The fake driver's graphs, captures and library of products.
#include <algorithm>
#include <cstring>

#include "tests/faults/stand_in/fake_objects.h"

namespace rlx::cuda {
namespace {

// Types of nodes other than kernels, by CUgraphNodeType.
constexpr int kCopyNode = 1;
constexpr int kFillNode = 2;
constexpr int kEmptyNode = 5;
constexpr int kRecordNode = 7;

bool is_node(const FakeGraph& graph, const FakeNode* node) {
  for (const auto& known : graph.nodes) {
    if (known.get() == node) return true;
  }
  misuse("a node of another graph");
  return false;
}

bool are_nodes(CUgraph graph, const CUgraphNode* nodes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (!is_node(*reinterpret_cast<FakeGraph*>(graph), reinterpret_cast<FakeNode*>(nodes[i])))
      return false;
  }
  return true;
}

CUresult add_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                  int type, FakeWork work) {
  if (!fake_objects().is(graph, FakeKind::Graph)) return kInvalidHandle;
  if (!are_nodes(graph, dependencies, count)) return kInvalidHandle;
  for (size_t i = 0; i < count; ++i) ++reinterpret_cast<FakeNode*>(dependencies[i])->edges_out;
  auto& nodes = reinterpret_cast<FakeGraph*>(graph)->nodes;
  nodes.push_back(std::make_unique<FakeNode>(
      FakeNode{.type = type, .work = std::move(work), .edges_in = count}));
  *node = reinterpret_cast<CUgraphNode>(nodes.back().get());
  return CUDA_SUCCESS;
}

// Drivers lose count of programmatic edges whose nodes have others too.
bool has_lone_early_edges(const FakeGraph& graph) {
  const bool good = std::ranges::all_of(graph.nodes, [](const auto& node) {
    return (!node->starts_early || node->edges_in == 1) &&
           (!node->lets_start || node->edges_out == 1);
  });
  if (!good) misuse("a programmatic edge beside other edges of its nodes");
  return good;
}

FakeWork copy_work(const CUDA_MEMCPY3D& params) {
  auto* target = reinterpret_cast<void*>(params.dstDevice + params.dstXInBytes);
  const auto* source = reinterpret_cast<const void*>(params.srcDevice + params.srcXInBytes);
  const size_t size_bytes = params.WidthInBytes;
  return [=] { checked_copy(target, source, size_bytes); };
}

FakeWork fill_work(const CUDA_MEMSET_NODE_PARAMS& fill) {
  return [fill] {
    auto* target = reinterpret_cast<unsigned char*>(fill.dst);
    if (!fake_objects().holds(target, fill.width * fill.elementSize)) return;
    for (size_t i = 0; i < fill.width; ++i)
      std::memcpy(target + i * fill.elementSize, &fill.value, fill.elementSize);
  };
}

// Of a node of the graph that the executable one was made from.
CUresult set_work(CUgraphExec exec, CUgraphNode node, int type, FakeWork work) {
  if (!fake_objects().is(exec, FakeKind::Exec)) return kInvalidHandle;
  auto* made = reinterpret_cast<FakeExec*>(exec);
  const auto found = std::ranges::find(made->nodes, node);
  if (found == made->nodes.end() || reinterpret_cast<FakeNode*>(node)->type != type) {
    misuse("params for a node that the executable graph has not, or that is of another kind");
    return kInvalidHandle;
  }
  made->work[static_cast<size_t>(found - made->nodes.begin())] = std::move(work);
  return CUDA_SUCCESS;
}

bool is_launchable(const CUDA_KERNEL_NODE_PARAMS& params) {
  return fake_objects().is(params.func, FakeKind::Module) && params.gridDimX > 0 &&
         params.gridDimY > 0 && params.gridDimZ > 0 && params.blockDimX > 0 &&
         params.kernelParams != nullptr;
}

template <typename Handle>
cublasStatus_t make_descriptor(Handle* handle) {
  auto* made = new char;
  fake_objects().add(made, FakeKind::Descriptor, 0);
  *handle = reinterpret_cast<Handle>(made);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Handle>
cublasStatus_t end_descriptor(Handle handle) {
  return end_object<char>(handle, FakeKind::Descriptor);
}

bool are_descriptors(std::initializer_list<const void*> handles) {
  for (const void* handle : handles) {
    if (!fake_objects().is(handle, FakeKind::Descriptor)) return false;
  }
  return true;
}

}  // namespace

FakeGraph::~FakeGraph() {
  for (const auto& body : bodies)
    static_cast<void>(fake_objects().remove(body.get(), FakeKind::Graph));
}

CUresult FakeCuda::cuGraphConditionalHandleCreate(CUgraphConditionalHandle* handle, CUgraph graph,
                                                  CUcontext, unsigned, unsigned) {
  if (!fake_objects().is(graph, FakeKind::Graph)) return kInvalidHandle;
  *handle = ++reinterpret_cast<FakeGraph*>(graph)->conditions;
  return CUDA_SUCCESS;
}
// Kernels do nothing here, so no condition is ever set and no body runs.
CUresult FakeCuda::cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph,
                                     const CUgraphNode* dependencies, const CUgraphEdgeData*,
                                     size_t count, CUgraphNodeParams* params) {
  if (!fake_objects().is(graph, FakeKind::Graph)) return kInvalidHandle;
  auto* around = reinterpret_cast<FakeGraph*>(graph);
  const CUDA_CONDITIONAL_NODE_PARAMS& conditional = params->conditional;
  if (params->type != CU_GRAPH_NODE_TYPE_CONDITIONAL || conditional.size != 1 ||
      conditional.handle == 0 || conditional.handle > around->conditions) {
    misuse("a conditional node without a condition of its graph");
    return kInvalidHandle;
  }
  around->bodies.push_back(std::make_unique<FakeGraph>());
  fake_objects().add(around->bodies.back().get(), FakeKind::Graph, 0);
  around->handed_out.push_back(reinterpret_cast<CUgraph>(around->bodies.back().get()));
  params->conditional.phGraph_out = &around->handed_out.back();
  return add_node(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_CONDITIONAL, [] {});
}
CUresult FakeCuda::cuGraphCreate(CUgraph* graph, unsigned) {
  auto* made = new FakeGraph;
  fake_objects().add(made, FakeKind::Graph, 0);
  *graph = reinterpret_cast<CUgraph>(made);
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuGraphDestroy(CUgraph graph) {
  return end_object<FakeGraph>(graph, FakeKind::Graph);
}
CUresult FakeCuda::cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph,
                                           const CUgraphNode* dependencies, size_t count,
                                           const CUDA_KERNEL_NODE_PARAMS* params) {
  if (!is_launchable(*params)) return kInvalidHandle;
  return add_node(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_KERNEL, [] {});
}
CUresult FakeCuda::cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph,
                                        const CUgraphNode* dependencies, size_t count,
                                        const CUDA_MEMCPY3D* params, CUcontext) {
  return add_node(node, graph, dependencies, count, kCopyNode, copy_work(*params));
}
CUresult FakeCuda::cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph,
                                        const CUgraphNode* dependencies, size_t count,
                                        const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  return add_node(node, graph, dependencies, count, kFillNode, fill_work(*params));
}
CUresult FakeCuda::cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph,
                                       const CUgraphNode* dependencies, size_t count) {
  return add_node(node, graph, dependencies, count, kEmptyNode, [] {});
}
CUresult FakeCuda::cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph,
                                             const CUgraphNode* dependencies, size_t count,
                                             CUevent event) {
  if (!fake_objects().is(event, FakeKind::Event)) return kInvalidHandle;
  auto* recorded = reinterpret_cast<FakeEvent*>(event);
  return add_node(node, graph, dependencies, count, kRecordNode,
                  [recorded] { recorded->happened = true; });
}
CUresult FakeCuda::cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                             const CUgraphNode* to, const CUgraphEdgeData* data,
                                             size_t count) {
  const bool known = fake_objects().is(graph, FakeKind::Graph) && are_nodes(graph, from, count) &&
                     are_nodes(graph, to, count);
  if (!known) return kInvalidHandle;
  for (size_t i = 0; i < count; ++i) {
    auto* before = reinterpret_cast<FakeNode*>(from[i]);
    auto* after = reinterpret_cast<FakeNode*>(to[i]);
    const bool is_early = data[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    ++before->edges_out;
    ++after->edges_in;
    before->lets_start = before->lets_start || is_early;
    after->starts_early = after->starts_early || is_early;
    test::fault_control().early_starts += is_early ? 1 : 0;
  }
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuGraphNodeGetType(CUgraphNode node, int* type) {
  *type = reinterpret_cast<FakeNode*>(node)->type;
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuGraphKernelNodeSetAttribute(CUgraphNode, int, const CUlaunchAttributeValue*) {
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                               unsigned long long) {
  if (!fake_objects().is(graph, FakeKind::Graph)) return kInvalidHandle;
  if (!has_lone_early_edges(*reinterpret_cast<FakeGraph*>(graph))) return kInvalidHandle;
  auto* made = new FakeExec;
  for (const auto& node : reinterpret_cast<FakeGraph*>(graph)->nodes) {
    made->work.push_back(node->work);
    made->nodes.push_back(reinterpret_cast<CUgraphNode>(node.get()));
  }
  fake_objects().add(made, FakeKind::Exec, 0);
  ++test::fault_control().graphs;
  *exec = reinterpret_cast<CUgraphExec>(made);
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuGraphExecDestroy(CUgraphExec exec) {
  return end_object<FakeExec>(exec, FakeKind::Exec);
}
CUresult FakeCuda::cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                     const CUDA_KERNEL_NODE_PARAMS* params) {
  if (!is_launchable(*params)) return kInvalidHandle;
  return set_work(exec, node, CU_GRAPH_NODE_TYPE_KERNEL, [] {});
}
CUresult FakeCuda::cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_MEMCPY3D* params, CUcontext) {
  return set_work(exec, node, kCopyNode, copy_work(*params));
}
CUresult FakeCuda::cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_MEMSET_NODE_PARAMS* params,
                                                  CUcontext) {
  return set_work(exec, node, kFillNode, fill_work(*params));
}
CUresult FakeCuda::cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  if (!fake_objects().is(exec, FakeKind::Exec)) return kInvalidHandle;
  ++test::fault_control().graph_launches;
  return put_work(stream, [work = reinterpret_cast<FakeExec*>(exec)->work] {
    for (const FakeWork& one : work) one();
  });
}

CUresult FakeCuda::cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                                    void** params, void**) {
  const CUDA_KERNEL_NODE_PARAMS node{.func = function,
                                     .gridDimX = config->gridDimX,
                                     .gridDimY = config->gridDimY,
                                     .gridDimZ = config->gridDimZ,
                                     .blockDimX = config->blockDimX,
                                     .blockDimY = config->blockDimY,
                                     .blockDimZ = config->blockDimZ,
                                     .sharedMemBytes = config->sharedMemBytes,
                                     .kernelParams = params,
                                     .extra = nullptr,
                                     .kern = nullptr,
                                     .ctx = nullptr};
  return is_launchable(node) ? put_work(config->hStream, [] {}) : kInvalidHandle;
}

CUresult FakeCuda::cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                               const CUgraphNode* dependencies,
                                               const CUgraphEdgeData*, size_t count, int) {
  const bool known = fake_objects().is(stream, FakeKind::Stream) &&
                     fake_objects().is(graph, FakeKind::Graph) &&
                     are_nodes(graph, dependencies, count);
  if (!known || stream == kDefaultStream) return kInvalidHandle;
  FakeStream* capturing = &stream_of(stream);
  if (capturing->capturing != nullptr) misuse("a stream that is captured already");
  capturing->capturing = reinterpret_cast<FakeGraph*>(graph);
  capturing->last.assign(dependencies, dependencies + count);
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuStreamGetCaptureInfo_v3(CUstream stream, int* status, uint64_t* id,
                                             CUgraph* graph, const CUgraphNode** dependencies,
                                             const CUgraphEdgeData** edges, size_t* count) {
  if (!fake_objects().is(stream, FakeKind::Stream)) return kInvalidHandle;
  FakeStream* capturing = &stream_of(stream);
  *status = capturing->capturing == nullptr ? 0 : 1;
  *id = 1;
  *graph = reinterpret_cast<CUgraph>(capturing->capturing);
  *dependencies = capturing->last.data();
  *edges = nullptr;
  *count = capturing->last.size();
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  if (!fake_objects().is(stream, FakeKind::Stream)) return kInvalidHandle;
  FakeStream* capturing = &stream_of(stream);
  if (capturing->capturing == nullptr) misuse("the end of a capture that was not begun");
  *graph = reinterpret_cast<CUgraph>(capturing->capturing);
  capturing->capturing = nullptr;
  return CUDA_SUCCESS;
}

cublasStatus_t FakeCuda::cublasLtCreate(cublasLtHandle_t* handle) {
  auto* made = new char;
  fake_objects().add(made, FakeKind::Library, 0);
  *handle = reinterpret_cast<cublasLtHandle_t>(made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t FakeCuda::cublasLtDestroy(cublasLtHandle_t handle) {
  return end_object<char>(handle, FakeKind::Library);
}
size_t FakeCuda::cublasLtGetVersion() {
  return 130000;
}
const char* FakeCuda::cublasLtGetStatusName(cublasStatus_t) {
  return "a status of the fake library";
}
// A kernel that computes nothing; one node of the graph that the stream is captured into.
cublasStatus_t FakeCuda::cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                        const void*, const void*, cublasLtMatrixLayout_t a_layout,
                                        const void*, cublasLtMatrixLayout_t b_layout, const void*,
                                        const void*, cublasLtMatrixLayout_t c_layout, void* d,
                                        cublasLtMatrixLayout_t d_layout,
                                        const cublasLtMatmulAlgo_t*, void*, size_t,
                                        CUstream stream) {
  const bool known = fake_objects().is(handle, FakeKind::Library) &&
                     are_descriptors({product, a_layout, b_layout, c_layout, d_layout}) &&
                     fake_objects().holds(d, 1) && fake_objects().is(stream, FakeKind::Stream);
  if (!known) return kInvalidHandle;
  FakeStream* capturing = &stream_of(stream);
  if (capturing->capturing == nullptr) return put_work(stream, [] {});
  CUgraphNode node = nullptr;
  const CUresult result =
      add_node(&node, reinterpret_cast<CUgraph>(capturing->capturing), capturing->last.data(),
               capturing->last.size(), CU_GRAPH_NODE_TYPE_KERNEL, [] {});
  if (result == CUDA_SUCCESS) capturing->last = {node};
  return result;
}
cublasStatus_t FakeCuda::cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a_layout,
    cublasLtMatrixLayout_t b_layout, cublasLtMatrixLayout_t c_layout,
    cublasLtMatrixLayout_t d_layout, cublasLtMatmulPreference_t preference, int,
    cublasLtMatmulHeuristicResult_t* results, int* count) {
  const bool known = fake_objects().is(handle, FakeKind::Library) &&
                     are_descriptors({product, a_layout, b_layout, c_layout, d_layout, preference});
  if (!known) return kInvalidHandle;
  results[0] = {};
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t FakeCuda::cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                                 cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                 cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                 const cublasLtMatmulAlgo_t*,
                                                 cublasLtMatmulHeuristicResult_t* result) {
  *result = {};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t FakeCuda::cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, int, int) {
  return make_descriptor(product);
}
cublasStatus_t FakeCuda::cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  return end_descriptor(product);
}
cublasStatus_t FakeCuda::cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product, int,
                                                        const void*, size_t) {
  return are_descriptors({product}) ? CUBLAS_STATUS_SUCCESS : kInvalidHandle;
}
cublasStatus_t FakeCuda::cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, int, uint64_t,
                                                    uint64_t, int64_t) {
  return make_descriptor(layout);
}
cublasStatus_t FakeCuda::cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return end_descriptor(layout);
}
cublasStatus_t FakeCuda::cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, int,
                                                          const void*, size_t) {
  return are_descriptors({layout}) ? CUBLAS_STATUS_SUCCESS : kInvalidHandle;
}
cublasStatus_t FakeCuda::cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return make_descriptor(preference);
}
cublasStatus_t FakeCuda::cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return end_descriptor(preference);
}
cublasStatus_t FakeCuda::cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                              int, const void*, size_t) {
  return are_descriptors({preference}) ? CUBLAS_STATUS_SUCCESS : kInvalidHandle;
}

}  // namespace rlx::cuda
