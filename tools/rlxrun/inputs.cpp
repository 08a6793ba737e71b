// SPDX-License-Identifier: Apache-2.0
// Matching of files to tensors, and the generator of --seeded.
#include "tools/rlxrun/inputs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "tools/rlxrun/errors.h"
#include "tools/rlxrun/numbers.h"

namespace rlx::tool {
namespace {

std::string list_tensors(const std::vector<Tensor>& tensors) {
  std::string text;
  for (const Tensor& tensor : tensors) {
    text += (text.empty() ? "" : ", ") + tensor.name + " " + type_text(tensor);
  }
  return text.empty() ? "none" : text;
}

bool ends_with(const std::string& text, std::string_view suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

class Matcher {
 public:
  Matcher(const std::vector<Tensor>& wanted, std::string_view kind, TypeCheck check)
      : wanted_(wanted), kind_(kind), check_(check) {
    matched_.arrays.resize(wanted.size());
    matched_.given.resize(wanted.size());
  }

  void add_file(const TensorFile& file) {
    if (ends_with(file.path, ".npz")) {
      add_npz(file);
      return;
    }
    std::string name = file.name;
    if (name.empty() && wanted_.size() == 1) name = wanted_[0].name;
    if (name.empty()) {
      throw Failure(ExitCode::InputRefused, file.path + " needs a name, as in name=" + file.path +
                                                "; the " + kind_ +
                                                "s are: " + list_tensors(wanted_));
    }
    npy::Array array;
    check(npy::read_npy(file.path, name, question(), array));
    add(name, std::move(array));
  }

  Matched take() { return std::move(matched_); }

 private:
  void add_npz(const TensorFile& file) {
    if (!file.name.empty()) {
      throw Failure(
          ExitCode::InputRefused,
          file.name + "=" + file.path + ": a .npz file names its arrays itself; give it alone");
    }
    std::vector<npy::NamedArray> arrays;
    check(npy::read_npz(file.path, question(), arrays));
    for (npy::NamedArray& each : arrays) add(each.name, std::move(each.array));
  }

  // What the reader asks before it reads an array's data.
  npy::Wanted question() const {
    return [this](std::string_view name, npy::Element element,
                  const std::vector<uint64_t>& dims) -> Status {
      check_(wanted_[index_of(name)], element, dims);
      return {};
    };
  }

  // Of a tensor that was not given yet.
  [[nodiscard]] size_t index_of(std::string_view name) const {
    const auto found = std::find_if(wanted_.begin(), wanted_.end(),
                                    [&](const Tensor& tensor) { return tensor.name == name; });
    if (found == wanted_.end()) {
      throw Failure(ExitCode::InputRefused, "there is no " + kind_ + " \"" + std::string(name) +
                                                "\"; the " + kind_ +
                                                "s are: " + list_tensors(wanted_));
    }
    const auto index = static_cast<size_t>(found - wanted_.begin());
    if (matched_.given[index]) {
      throw Failure(ExitCode::InputRefused,
                    kind_ + " \"" + std::string(name) + "\" is given twice");
    }
    return index;
  }

  void add(const std::string& name, npy::Array array) {
    const size_t index = index_of(name);
    if (array.element == npy::Element::U16 && wanted_[index].dtype == RLX_BF16) {
      matched_.notes.push_back(kind_ + " \"" + name + "\": the file's u16 are taken as bf16 bits");
    }
    matched_.arrays[index] = std::move(array);
    matched_.given[index] = true;
  }

  const std::vector<Tensor>& wanted_;
  std::string kind_;
  TypeCheck check_;
  Matched matched_;
};

// SplitMix64: one 64-bit state, equidistributed, the same everywhere.
class Generator {
 public:
  explicit Generator(uint64_t state) : state_(state) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t mixed = state_;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
  }

  // In (0, 1).
  double uniform() { return (static_cast<double>(next() >> 12) + 0.5) * 0x1p-52; }

  // The sum of twelve uniform numbers has variance 1: close enough to normal, and free of libm's
  // differences.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  uint64_t state_;
};

// FNV-1a.
uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return hash;
}

template <typename T>
void put(std::vector<std::byte>& data, uint64_t index, T value) {
  std::memcpy(data.data() + index * sizeof(T), &value, sizeof value);
}

void put_integer(std::vector<std::byte>& data, uint64_t index, uint32_t size_bytes, int64_t value) {
  std::memcpy(data.data() + index * size_bytes, &value, size_bytes);
}

int64_t largest_of(uint32_t dtype) {
  switch (dtype) {
    case RLX_I8:
      return INT8_MAX;
    case RLX_U8:
      return UINT8_MAX;
    case RLX_I16:
      return INT16_MAX;
    case RLX_I32:
      return INT32_MAX;
    case RLX_U32:
      return UINT32_MAX;
    default:
      return INT64_MAX - 1;
  }
}

void put_seeded(std::vector<std::byte>& data, uint64_t index, const Tensor& tensor,
                uint32_t size_bytes, int64_t bound, Generator& generator) {
  switch (tensor.dtype) {
    case RLX_F32:
      put(data, index, static_cast<float>(generator.normal()));
      break;
    case RLX_F64:
      put(data, index, generator.normal());
      break;
    case RLX_F16:
      put(data, index, to_f16(static_cast<float>(generator.normal())));
      break;
    case RLX_BF16:
      put(data, index, to_bf16(static_cast<float>(generator.normal())));
      break;
    case RLX_C64:
      put(data, 2 * index, static_cast<float>(generator.normal()));
      put(data, 2 * index + 1, static_cast<float>(generator.normal()));
      break;
    // Clearing the second bit keeps every pattern finite: no exponent is all ones.
    case RLX_F8E4M3:
    case RLX_F8E5M2:
      put(data, index, static_cast<uint8_t>(generator.next() & 0xbf));
      break;
    case RLX_BOOL:
      put(data, index, static_cast<uint8_t>(generator.next() >> 63));
      break;
    default:
      put_integer(data, index, size_bytes,
                  static_cast<int64_t>(generator.next() % static_cast<uint64_t>(bound)));
  }
}

void set_input(rlx_session* session, const EntryView& entry, size_t input,
               const npy::Array& array) {
  const Tensor& wanted = entry.inputs[input];
  rlx_tensor tensor = RLX_INIT(rlx_tensor);
  tensor.data = array.data.data();
  tensor.size_bytes = array.data.size();
  tensor.dtype = wanted.dtype;
  tensor.rank = static_cast<uint32_t>(array.dims.size());
  std::copy(array.dims.begin(), array.dims.end(), tensor.dims);
  check(rlx_session_set_input(session, entry.index, wanted.name.c_str(), &tensor));
}

}  // namespace

void require_same_type(std::string_view kind, const Tensor& tensor, npy::Element element,
                       const std::vector<uint64_t>& dims) {
  if (npy::carries(element, tensor.dtype) && can_have_dims(tensor, dims)) return;
  throw Failure(ExitCode::InputRefused, std::string(kind) + " \"" + tensor.name + "\": got " +
                                            std::string(npy::element_name(element)) +
                                            shape_text(dims) + ", wanted " + type_text(tensor));
}

Matched match_files(const std::vector<TensorFile>& files, const std::vector<Tensor>& wanted,
                    std::string_view kind, TypeCheck check) {
  Matcher matcher(wanted, kind, check);
  for (const TensorFile& file : files) matcher.add_file(file);
  return matcher.take();
}

Matched load_inputs(const Options& options, const std::vector<Tensor>& wanted) {
  Matched matched = match_files(
      options.inputs, wanted, "input",
      [](const Tensor& tensor, npy::Element element, const std::vector<uint64_t>& dims) {
        require_same_type("input", tensor, element, dims);
      });
  std::vector<Tensor> missing;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (matched.given[i]) continue;
    if (!options.seeded) {
      missing.push_back(wanted[i]);
      continue;
    }
    if (!wanted[i].is_free())
      matched.arrays[i] = seeded_array(wanted[i], options.seed, options.seeded_max);
  }
  if (!missing.empty()) {
    throw Failure(ExitCode::InputRefused,
                  "no file gives these inputs: " + list_tensors(missing) +
                      "; use --inputs name=file.npy, or --seeded for random ones");
  }
  return matched;
}

npy::Array seeded_array(const Tensor& tensor, uint64_t seed, int64_t seeded_max) {
  const std::optional<npy::Element> element = npy::element_for(tensor.dtype);
  if (!element.has_value()) {
    throw Failure(ExitCode::InputRefused, "input \"" + tensor.name +
                                              "\": " + type_text(tensor.dtype, tensor.dims) +
                                              " cannot be seeded");
  }
  npy::Array array{.element = *element, .dims = tensor.dims, .data = {}};
  array.data.resize(tensor.size_bytes);
  const uint32_t size_bytes = npy::element_bytes(*element);
  const int64_t bound = std::min(seeded_max, largest_of(tensor.dtype));
  Generator generator(hash_name(tensor.name) ^ seed * 0x9e3779b97f4a7c15);
  for (uint64_t i = 0; i < array.element_count(); ++i)
    put_seeded(array.data, i, tensor, size_bytes, bound, generator);
  return array;
}

uint64_t symbol_of(rlx_session* session, const EntryView& entry, const std::string& name) {
  uint64_t value = 0;
  check(rlx_session_get_symbol(session, entry.index, name.c_str(), &value));
  return value;
}

void give_inputs(rlx_session* session, const EntryView& entry, const Matched& inputs,
                 const Options& options) {
  for (const SymbolValue& symbol : options.symbols)
    check(rlx_session_set_symbol(session, entry.index, symbol.name.c_str(), symbol.value));
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    if (inputs.given[i] || !entry.inputs[i].is_free())
      set_input(session, entry, i, inputs.arrays[i]);
  }
  for (const SymbolValue& symbol : options.symbols) {
    const uint64_t value = symbol_of(session, entry, symbol.name);
    if (value == symbol.value) continue;
    throw Failure(ExitCode::InputRefused, "--dim " + symbol.name + "=" +
                                              std::to_string(symbol.value) + ": the inputs have " +
                                              std::to_string(value));
  }
  for (uint32_t i = 0; i < entry.inputs.size(); ++i) {
    if (inputs.given[i] || !entry.inputs[i].is_free()) continue;
    const Tensor present = describe_input(session, entry.index, i);
    set_input(session, entry, i, seeded_array(present, options.seed, options.seeded_max));
  }
}

npy::Array to_array(const Tensor& tensor, const std::vector<std::byte>& data) {
  const std::optional<npy::Element> element = npy::element_for(tensor.dtype);
  if (!element.has_value()) {
    throw Failure(ExitCode::InputRefused, "\"" + tensor.name + "\" is " +
                                              type_text(tensor.dtype, tensor.dims) +
                                              ", which .npy files cannot hold");
  }
  return {.element = *element, .dims = tensor.dims, .data = data};
}

}  // namespace rlx::tool
