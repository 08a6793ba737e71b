// SPDX-License-Identifier: Apache-2.0
// What embed.c does, in C++ with rlx.hpp: opens a plan, says what it needs, runs its first entry
// once and prints the beginnings of its f32 outputs.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <rlx.hpp>
#include <string>
#include <vector>

namespace {

constexpr size_t kShownElements = 8;

// The file of the argument NAME=FILE; "" where there is none, which cannot be opened.
std::string file_of(const std::string& name, std::span<char*> arguments) {
  for (const std::string argument : arguments) {
    if (argument.starts_with(name + "=")) return argument.substr(name.size() + 1);
  }
  return "";
}

void run(const rlx::Plan& plan, rlx::Session& session, std::span<char*> arguments) {
  for (const rlx::TensorInfo& input : plan.inputs()) {
    std::ifstream file(file_of(input.name(), arguments), std::ios::binary);
    const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
    session.set_input(input.name(),
                      rlx::make_tensor(bytes.data(), bytes.size(),
                                       static_cast<rlx_dtype>(input.dtype()), input.dims()));
  }
  session.run();
  for (uint32_t i = 0; i < plan.entry(0).output_count; ++i) {
    if (session.output(i).dtype() != RLX_F32) continue;
    const std::vector<float> elements = session.read_output<float>(i);
    std::cout << session.output(i).name() << ":";
    for (size_t e = 0; e < std::min(elements.size(), kShownElements); ++e)
      std::cout << " " << elements[e];
    std::cout << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: embed_cpp PLAN DEVICE [INPUT=RAW_FILE]...\n";
    return 1;
  }
  try {
    const rlx::Plan plan{std::string(argv[1])};
    const rlx::Device device{argv[2]};
    rlx::Session session(plan, device);
    std::cout << plan.info().name << ": arena " << plan.info().arena_bytes << " bytes on "
              << device.info().name << "\n";
    run(plan, session, std::span(argv, static_cast<size_t>(argc)).subspan(3));
  } catch (const rlx::Error& error) {
    std::cerr << "embed_cpp: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
