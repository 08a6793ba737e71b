// SPDX-License-Identifier: Apache-2.0
// Writes a fixture plan of one entry "main" that copies x f32[64] to y, and an input: write_plan
// PLAN X_RAW.
#include <cstdio>
#include <vector>

#include "tests/support/plan_fixture.h"

namespace {

bool write_file(const char* path, const void* bytes, size_t size) {
  std::FILE* file = std::fopen(path, "wb");
  if (file == nullptr) return false;
  const bool whole = std::fwrite(bytes, 1, size, file) == size;
  return std::fclose(file) == 0 && whole;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 1;
  rlx::test::PlanSpec spec = rlx::test::small_plan();
  spec.entries.erase(spec.entries.begin());
  spec.entries[0].name = "main";
  const std::vector<std::byte> plan = rlx::test::serialise(spec);
  std::vector<float> x;
  for (int i = 0; i < 64; ++i) x.push_back(static_cast<float>(i) / 2);
  const bool written = write_file(argv[1], plan.data(), plan.size()) &&
                       write_file(argv[2], x.data(), x.size() * sizeof(float));
  return written ? 0 : 1;
}
