// SPDX-License-Identifier: Apache-2.0
// The pipeline cache file: an identity, then the driver's bytes. Whatever does not fit exactly is
// as good as absent.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/base/cache_folder.h"
#include "runtime/base/input_file.h"
#include "runtime/base/output_file.h"
#include "runtime/base/text.h"
#include "runtime/vulkan/vk_pipelines.h"

namespace rlx::vulkan {
namespace {

constexpr std::array<char, 8> kMagic = {'R', 'L', 'X', 'V', 'K', 'P', 'C', '\0'};

// Everything that a driver's pipeline data depends on. Compared byte by byte.
struct CacheIdentity {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t vendor_id;
  uint32_t device_id;
  uint32_t driver_version;
  uint8_t pipeline_cache_uuid[VK_UUID_SIZE];
  uint8_t driver_uuid[VK_UUID_SIZE];
  uint64_t plan;
};

struct CacheHeader {
  CacheIdentity identity;
  uint64_t data_bytes;
  uint64_t data_checksum;  // XXH3-64
};
static_assert(sizeof(CacheHeader) == 80,
              "no implicit padding: the header is compared and written as bytes");

// A driver's cache of a large plan takes some 10 MB; a larger file is not ours.
constexpr uint64_t kMaxDataBytes = uint64_t{1} << 30;

CacheIdentity identity_of(const PhysicalDevice& device, const PlanView& plan) {
  CacheIdentity identity = {.magic = kMagic,
                            .version = 1,
                            .vendor_id = device.vendor_id,
                            .device_id = device.device_id,
                            .driver_version = device.driver_version,
                            .plan = plan.identity()};
  std::copy_n(device.pipeline_cache_uuid, VK_UUID_SIZE, identity.pipeline_cache_uuid);
  std::copy_n(device.driver_uuid, VK_UUID_SIZE, identity.driver_uuid);
  return identity;
}

}  // namespace

std::optional<std::string> pipeline_cache_file(const std::string& folder,
                                               const PhysicalDevice& device, const PlanView& plan) {
  if (make_cache_folder(folder, FolderAccess::OwnerAlone) != FolderOwner::Own) return std::nullopt;
  const CacheIdentity identity = identity_of(device, plan);
  std::array<char, sizeof(uint64_t) * 2 + 1> name{};
  std::snprintf(name.data(), name.size(), "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(&identity, sizeof identity)));
  return text_of(folder, "/", name.data(), ".pipelines");
}

std::vector<std::byte> read_pipeline_cache(const std::string& path, const PhysicalDevice& device,
                                           const PlanView& plan) {
  InputFile file;
  CacheHeader header;
  if (!InputFile::open(path, {.follow_links = false}, file).ok() ||
      file.size_bytes() < sizeof header) {
    return {};
  }
  if (!file.read(0, std::as_writable_bytes(std::span(&header, 1))).ok()) return {};
  const CacheIdentity wanted = identity_of(device, plan);
  if (std::memcmp(&header.identity, &wanted, sizeof wanted) != 0) return {};
  if (header.data_bytes > kMaxDataBytes || header.data_bytes != file.size_bytes() - sizeof header)
    return {};
  std::vector<std::byte> data(header.data_bytes);
  if (!file.read(sizeof header, data).ok()) return {};
  if (XXH3_64bits(data.data(), data.size()) != header.data_checksum) return {};
  return data;
}

bool is_foreign_file(const std::string& path) {
  InputFile file;
  std::array<char, sizeof CacheIdentity::magic> begin{};
  if (!InputFile::open(path, {.follow_links = false}, file).ok() || file.size_bytes() == 0)
    return false;
  return file.size_bytes() < begin.size() ||
         !file.read(0, std::as_writable_bytes(std::span(begin))).ok() || begin != kMagic;
}

bool write_pipeline_cache(const std::string& path, const PhysicalDevice& device,
                          const PlanView& plan, std::span<const std::byte> data) {
  const CacheHeader header = {.identity = identity_of(device, plan),
                              .data_bytes = data.size(),
                              .data_checksum = XXH3_64bits(data.data(), data.size())};
  OutputFile file;
  return OutputFile::create(path, OutputUse::Cache, file).ok() &&
         file.write_at(0, std::as_bytes(std::span(&header, 1))).ok() &&
         file.write_at(sizeof header, data).ok() && file.commit().ok();
}

}  // namespace rlx::vulkan
