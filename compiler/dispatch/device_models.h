// SPDX-License-Identifier: Apache-2.0
// The models that the compiler knows by itself, one for each target that a device is reached by.
#pragma once

#include "compiler/dispatch/device_model.h"

namespace rlx {

// Measured on an H200 (driver 580); see tests/bench/results. Shared memory: the 32 KiB that every
// Vulkan 1.3 desktop device has, NVIDIA's 48, and what a workgroup may ask for on the smallest
// listed CUDA architecture (sm_86: 99 KiB).
inline constexpr DeviceModel kH200Vulkan = {
    .shared_bytes = 32 * 1024,
    .multiprocessors = 132,
    .memory_gigabytes_per_second = 4270,
    .step_microseconds = 1.84,
    .full = {.matvec_groups = 396,
             .matvec_threads = 262144,
             .attention_groups = 128,
             .decode_groups = 512,
             .reduce_groups = 256,
             .scatter_threads = 131072},
    // Chains of 16 products of 128 x {384, 1536} x {384, 1536} f32: within 20 % of the measured
    // times of the tiles that are preferred. 128 multiply-adds per cycle at 1.7 GHz.
    .thread_tiles = {.products = 128 * 1700.0,
                     .resident_warps = 16,
                     .step = 0.4,
                     .single_stage_step = 1.0,
                     .second_pass = 3.6,
                     .second_pass_rate = 3e6}};

constexpr DeviceModel h200_vulkan_coop() {
  DeviceModel model = kH200Vulkan;
  model.shared_bytes = 48 * 1024;
  // 841 tilings of 54 shapes (32 x 1024..2048 x 1024..2048, 128 x 384..4096 x 384..4096, 25088 x
  // 96..384 x 96..384 and what lies between, 1024 x 2048 x 2048, 2048 x 768..3072 x 768..3072), in
  // chains of two shapes, one of them varied: estimates are 4 % off (median), and what is picked
  // takes 1 % longer than the fastest on average, 7 % at most. The latency and the second pass are
  // of plans: six layers 384 and 768 wide of 16 to 384 lines, 216 tilings of 24 shapes.
  model.coop = {.start = 2.07,
                .products = 4.22e6,
                .read_rate = 0.254e6,
                .stage_rate = 0.313e6,
                .load_latency = 0.483,
                .step = 0.207,
                .two_stages = 0.481,
                .shared_step = 0.213,
                .cache_rate = 5.33e6,
                .finish = 0.136,
                .finish_rate = 17.6e3,
                .second_pass = 2.96,
                .second_pass_rate = 8.6e6,
                .registers = 65536,
                .all_shared_bytes = 48 * 1024};
  return model;
}
inline constexpr DeviceModel kH200VulkanCoop = h200_vulkan_coop();

constexpr DeviceModel h200_cuda() {
  DeviceModel model = kH200Vulkan;
  model.shared_bytes = 99 * 1024;
  model.step_microseconds = 0.83;
  // Encoders 384, 768 and 1024 wide of 77 to 4096 lines, of plans; so is wgmma's. The largest
  // products of f32 reach 47.
  model.library = {.begin = 5.5,
                   .float_begin = 7.5,
                   .depth_rate = 1800,
                   .short_float = 790,
                   .f32 = 30,
                   .tf32 = 260,
                   .added_rate = 3000};
  model.mma = {.start = 1.17,
               .warpgroup_products = 2.4e6,
               .warp_products = 0.6e6,
               .split_f32_products = 0.2e6,
               .unit_operation = 0.0068};
  // 249 tilings of 11 shapes (128 x 384..3072 x 384..3072 of encoders, 32 x 1000 x 2048, 1024 x
  // 3072 x 2048) in chains with early starts: what is picked takes 8 % longer than the fastest on
  // average.
  model.mma_warps = {.cache_rate = 6.5e6,
                     .port_rate = 0.0696e6,
                     .shared = 0.12,
                     .refilled_weights = 2.26,
                     .refilled = 1.1,
                     .block = 0.027,
                     .refilled_block = 0.027,
                     .exchange = 0.15,
                     .exchange_rate = 0.0201e6,
                     .join = 0.15};
  // 100 tilings of the products of BERT-base and MiniLM-L6 (b1 s128 f16) in these networks: what is
  // picked is within 0.1 us of the fastest.
  model.mma_warpgroups = {.cache_rate = 7e6,
                          .port_rate = 0.06e6,
                          .shared = 0.74,
                          .refilled_weights = 0.78,
                          .refilled = 0.9,
                          .block = 0.058,
                          .refilled_block = 0,
                          .exchange = 0.1,
                          .exchange_rate = 0.0274e6,
                          .join = 0.054};
  model.wgmma = {.begin = 4.2,
                 .step = 0.0027,
                 .both = 0.0035,
                 .both_residual = 0.005,
                 .both_heavy = 0.012,
                 .one = 0.008,
                 .one_residual = 0.024,
                 .one_heavy = 0.045};
  model.stream = {.pace_bytes = 48 * 1024};  // 26 KB give the full speed
  model.resident = {.shared_bytes = 227 * 1024};
  // Chains of equal steps: 12 heads of 32 and 64, 128 tokens, batch 1 and 32, f16 and f32; prefill
  // of 1024 tokens and decode over 1025 keys of 32 heads, 8 kv heads, bf16.
  model.attention = {.start = 1.2,
                     .step = 0.3,
                     .load = 0.14,
                     .join = 0.17,
                     .cluster = 1.0,
                     .crowded_cluster = 3.5,
                     .staged_start = 1.8,
                     .staged_step = 0.8,
                     .staged_tile = 0.39,
                     .f32_slowdown = 5,
                     .cache_rate = 4.5e6};
  // The convolutions of ResNet-50 at batch 32.
  model.conv = {.tiles = 1,
                .start = 1.4,
                .split = 1.4,
                .products = 2.1,
                .epilogue = 0.25,
                .burst = 160e3,
                .copy_rate = 50e3,
                .tail = 0.33,
                .residual_tail = 0.53,
                .group_start = 2.3,
                .group_split = 2.2};
  return model;
}
inline constexpr DeviceModel kH200Cuda = h200_cuda();

// A card of the middle class by its data sheet (RTX 4070: 46 multiprocessors of 2475 MHz, 504 GB/s,
// 128 multiply-adds of f32 per cycle and multiprocessor, 256 of f16 summed in f32, 128 of tf32).
// Rates are these peaks times the share of its own that an H200 reaches (0.89 of memory, 0.68 by
// the library); tensor cores as warps drive them, 0.7. Latencies are the H200's.
inline constexpr DeviceModel kGenericVulkan = {
    .shared_bytes = 32 * 1024,
    .multiprocessors = 46,
    .memory_gigabytes_per_second = 450,
    .step_microseconds = 3,
    // Per multiprocessor as on the H200, which runs 2048 threads on each; this one 1536.
    .full = {.matvec_groups = 138,
             .matvec_threads = 70656,
             .attention_groups = 46,
             .decode_groups = 184,
             .reduce_groups = 92,
             .scatter_threads = 47104},
    .thread_tiles = {.products = 128 * 2475.0,
                     .resident_warps = 16,
                     .step = 0.4,
                     .single_stage_step = 1.0,
                     .second_pass = 3.6,
                     .second_pass_rate = 0.32e6}};

constexpr DeviceModel generic_vulkan_coop() {
  DeviceModel model = kGenericVulkan;
  model.shared_bytes = kH200VulkanCoop.shared_bytes;
  model.coop = kH200VulkanCoop.coop;
  model.coop.products = 0.44e6;
  model.coop.cache_rate = 2.7e6;  // by multiprocessors and clocks
  model.coop.second_pass_rate = 0.46e6;
  return model;
}
inline constexpr DeviceModel kGenericVulkanCoop = generic_vulkan_coop();

constexpr DeviceModel generic_cuda() {
  DeviceModel model = kH200Cuda;
  model.multiprocessors = kGenericVulkan.multiprocessors;
  model.memory_gigabytes_per_second = kGenericVulkan.memory_gigabytes_per_second;
  model.step_microseconds = 1;
  model.full = kGenericVulkan.full;
  model.thread_tiles = kGenericVulkan.thread_tiles;
  model.library = {.begin = 5.5,
                   .float_begin = 7.5,
                   .depth_rate = 1800,
                   .short_float = 40,
                   .f32 = 20,
                   .tf32 = 20,
                   .added_rate = 320};
  model.mma.warp_products = 0.44e6;
  model.mma.split_f32_products = 0.15e6;
  // No warpgroups: their tiles run as warps.
  model.mma.warpgroup_products = model.mma.warp_products;
  model.mma_warps.cache_rate = 3.3e6;  // by multiprocessors and clocks
  model.mma_warps.port_rate = 0.1e6;   // by clocks
  model.mma_warpgroups = model.mma_warps;
  model.wgmma.step = 0.0186;  // 128 x 64 multiply-adds at warp_products
  model.stream.pace_bytes = 16 * 1024;
  model.resident.shared_bytes = 99 * 1024;
  model.attention.staged_tile = 1.2;
  model.attention.cache_rate = 2.3e6;
  model.conv.tiles = 3.1;  // warp_products against 1.38e6 of the H200's largest tiles
  model.conv.products = 0.44;
  return model;
}
inline constexpr DeviceModel kGenericCuda = generic_cuda();

// Mesa 22.3.6 on two cores that other programs were busy on, by tests/bench/fit_device.py, the
// medians of five runs of each sample.
inline constexpr DeviceModel kLavapipe = {.shared_bytes = 32 * 1024,
                                          .multiprocessors = 2,
                                          .memory_gigabytes_per_second = 3.09,
                                          .step_microseconds = 14,
                                          .full = {.matvec_groups = 6,
                                                   .matvec_threads = 3972,
                                                   .attention_groups = 2,
                                                   .decode_groups = 8,
                                                   .reduce_groups = 4,
                                                   .scatter_threads = 1986},
                                          .thread_tiles = {.products = 1205,
                                                           .resident_warps = 16,
                                                           .step = 41.4,
                                                           .single_stage_step = 208,
                                                           .second_pass = 684,
                                                           .second_pass_rate = 15788},
                                          .lane_tiles = {.products = 6000}};

}  // namespace rlx
