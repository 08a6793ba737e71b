// SPDX-License-Identifier: Apache-2.0
// Trains a plan made by `rlxc --grad loss --optimizer adamw --lr input`: batches in, losses out;
// after each epoch the held-out images through the entry eval. Uses nothing but rlx.h.
#include <rlx.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr size_t kPixels = 28 * 28;
constexpr int kSide = 28;
constexpr double kRate = 1.5e-3;

using Bytes = std::vector<unsigned char>;

void check(rlx_status status) {
  if (status != RLX_OK) throw std::runtime_error(rlx_last_error());
}

Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be read; prepare.py writes it");
  return {std::istreambuf_iterator<char>(file), {}};
}

// An entry of the plan, and how many images it takes.
struct Entry {
  uint32_t index = 0;
  size_t batch = 0;
};

Entry find_entry(const rlx_plan* plan, const std::string& name) {
  for (uint32_t i = 0;; ++i) {
    rlx_entry_info info = RLX_INIT(rlx_entry_info);
    if (rlx_plan_get_entry(plan, i, &info) != RLX_OK)
      throw std::runtime_error("the plan has no entry " + name);
    if (info.name != name) continue;
    rlx_tensor_info images = RLX_INIT(rlx_tensor_info);
    check(rlx_plan_get_input(plan, i, 0, &images));
    return {.index = i, .batch = static_cast<size_t>(images.dims[0])};
  }
}

void set_input(rlx_session* session, const Entry& entry, const char* name, const void* data,
               size_t bytes, uint32_t dtype, const std::vector<uint64_t>& dims) {
  rlx_tensor tensor = RLX_INIT(rlx_tensor);
  tensor.data = data;
  tensor.size_bytes = bytes;
  tensor.dtype = dtype;
  tensor.rank = static_cast<uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), tensor.dims);
  check(rlx_session_set_input(session, entry.index, name, &tensor));
}

void set_batch(rlx_session* session, const Entry& entry, const Bytes& images, const Bytes& labels) {
  set_input(session, entry, "images", images.data(), images.size(), RLX_U8,
            {entry.batch, 1, kSide, kSide});
  set_input(session, entry, "labels", labels.data(), labels.size(), RLX_U8, {entry.batch});
}

// The same everywhere, so that a run can be repeated.
class Generator {
 public:
  explicit Generator(uint64_t seed) : state_(seed * 2654435761u + 88172645463325252u) {}
  size_t below(size_t n) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<size_t>(state_ % n);
  }

 private:
  uint64_t state_;
};

// Moved by up to two pixels, so that few images go further.
void append_shifted(const unsigned char* image, Generator& random, Bytes& to) {
  const int dy = static_cast<int>(random.below(5)) - 2;
  const int dx = static_cast<int>(random.below(5)) - 2;
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const int from_y = y + dy;
      const int from_x = x + dx;
      const bool inside = from_y >= 0 && from_y < kSide && from_x >= 0 && from_x < kSide;
      to.push_back(inside ? image[from_y * kSide + from_x] : 0);
    }
  }
}

struct Data {
  Bytes images;
  Bytes labels;
  size_t trained = 0;  // the first ones; the others are held out
};

double evaluate(rlx_session* session, const Entry& entry, const Data& data) {
  size_t right = 0;
  size_t seen = 0;
  std::vector<int32_t> digits(entry.batch);
  for (size_t at = data.trained; at + entry.batch <= data.labels.size(); at += entry.batch) {
    const auto image = data.images.begin() + static_cast<ptrdiff_t>(at * kPixels);
    const auto label = data.labels.begin() + static_cast<ptrdiff_t>(at);
    const Bytes labels(label, label + static_cast<ptrdiff_t>(entry.batch));
    set_batch(session, entry, Bytes(image, image + static_cast<ptrdiff_t>(entry.batch * kPixels)),
              labels);
    check(rlx_session_run(session, entry.index));
    check(rlx_session_read_output(session, entry.index, "digits", digits.data(),
                                  digits.size() * sizeof digits[0]));
    for (size_t i = 0; i < entry.batch; ++i) right += digits[i] == labels[i] ? 1 : 0;
    seen += entry.batch;
  }
  return static_cast<double>(right) / static_cast<double>(seen);
}

// FNV-1a of all states: equal for equal bits.
uint64_t hash_of_states(const rlx_plan* plan, rlx_session* session) {
  uint64_t hash = 14695981039346656037u;
  for (uint32_t i = 0; i < rlx_plan_state_count(plan); ++i) {
    rlx_tensor_info info = RLX_INIT(rlx_tensor_info);
    check(rlx_plan_get_state(plan, i, &info));
    Bytes bytes(info.size_bytes);
    check(rlx_session_read_state(session, info.name, nullptr, bytes.data(), bytes.size()));
    for (const unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211u;
  }
  return hash;
}

struct Wanted {
  size_t epochs = 14;
  size_t steps = SIZE_MAX;  // at most
  size_t trained = 8000;
  std::string losses;  // a file, one line for each step; empty: none
};

void train(rlx_session* session, const rlx_plan* plan, const Data& data, const Wanted& wanted) {
  const Entry step = find_entry(plan, "train");
  const Entry eval = find_entry(plan, "eval");
  std::ofstream losses(wanted.losses.empty() ? "/dev/null" : wanted.losses);
  losses.precision(9);
  Generator random(7);
  std::vector<size_t> order(data.trained);
  std::iota(order.begin(), order.end(), size_t{0});
  size_t done = 0;
  for (size_t epoch = 0; epoch < wanted.epochs && done < wanted.steps; ++epoch) {
    const auto part = static_cast<double>(epoch) / static_cast<double>(wanted.epochs);
    const auto rate = static_cast<float>(kRate * 0.5 * (1 + std::cos(M_PI * part)));
    set_input(session, step, "lr", &rate, sizeof rate, RLX_F32, {});
    double sum = 0;
    size_t count = 0;
    for (size_t at = 0; at + step.batch <= data.trained && done < wanted.steps; at += step.batch) {
      Bytes images;
      Bytes labels;
      for (size_t i = 0; i < step.batch; ++i) {
        const unsigned char* image = data.images.data() + order[at + i] * kPixels;
        // The first epoch takes the images as they are, in their order: a reference can follow.
        if (epoch == 0) images.insert(images.end(), image, image + kPixels);
        if (epoch > 0) append_shifted(image, random, images);
        labels.push_back(data.labels[order[at + i]]);
      }
      set_batch(session, step, images, labels);
      check(rlx_session_run(session, step.index));
      float loss = 0;
      check(rlx_session_read_output(session, step.index, "loss", &loss, sizeof loss));
      losses << loss << "\n";
      sum += loss;
      ++count;
      ++done;
    }
    std::printf("epoch %zu: mean loss %.4f, held-out accuracy %.4f\n", epoch + 1,
                sum / static_cast<double>(count), evaluate(session, eval, data));
    std::fflush(stdout);
    for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  }
  std::printf("%zu steps, states %016llx\n", done,
              static_cast<unsigned long long>(hash_of_states(plan, session)));
}

int run(int argc, char** argv) {
  Wanted wanted;
  for (int i = 4; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    const std::string value = argv[i + 1];
    if (option == "--epochs") {
      wanted.epochs = std::stoul(value);
    } else if (option == "--steps") {
      wanted.steps = std::stoul(value);
    } else if (option == "--trained") {
      wanted.trained = std::stoul(value);
    } else if (option == "--losses") {
      wanted.losses = value;
    } else {
      throw std::runtime_error("unknown option " + option);
    }
  }
  const std::string folder = argv[3];
  Data data{.images = read_file(folder + "/images.u8"),
            .labels = read_file(folder + "/labels.u8"),
            .trained = wanted.trained};
  if (data.images.size() != data.labels.size() * kPixels || data.labels.size() <= data.trained)
    throw std::runtime_error(folder + ": images and labels do not belong together");
  rlx_plan* plan = nullptr;
  rlx_device* device = nullptr;
  rlx_session* session = nullptr;
  check(rlx_plan_open_file(argv[1], nullptr, &plan));
  const std::unique_ptr<rlx_plan, void (*)(rlx_plan*)> owned_plan(plan, rlx_plan_close);
  check(rlx_device_open(argv[2], &device));
  const std::unique_ptr<rlx_device, void (*)(rlx_device*)> owned_device(device, rlx_device_close);
  check(rlx_session_create(plan, device, nullptr, &session));
  const std::unique_ptr<rlx_session, void (*)(rlx_session*)> owned_session(session,
                                                                           rlx_session_close);
  train(session, plan, data, wanted);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc % 2 != 0) {
    std::fprintf(
        stderr,
        "usage: train PLAN DEVICE DATA [--epochs N] [--steps N] [--trained N] [--losses FILE]\n");
    return 1;
  }
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return 1;
  }
}
