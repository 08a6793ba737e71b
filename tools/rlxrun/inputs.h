// SPDX-License-Identifier: Apache-2.0
// From files and seeds to the tensors that an entry wants.
#pragma once

#include <string>
#include <vector>

#include "tools/npy/npy.h"
#include "tools/rlxrun/handles.h"
#include "tools/rlxrun/options.h"

namespace rlx::tool {

// One array for each wanted tensor, in their order. `kind` ("input") is for messages.
struct Matched {
  std::vector<npy::Array> arrays;
  std::vector<bool> given;
  std::vector<std::string> notes;  // what was taken for something else, as u16 for bf16
};

// Refuses, by a Failure, an array of this type and shape where it cannot be the tensor's. Asked
// before the array's data are read.
using TypeCheck = void (*)(const Tensor& tensor, npy::Element element,
                           const std::vector<uint64_t>& dims);

// Reads the files and gives each array to the tensor of its name. Refused: unknown names (the right
// ones are listed), names given twice, a file without a name where several tensors could be meant,
// and what `check` refuses.
Matched match_files(const std::vector<TensorFile>& files, const std::vector<Tensor>& wanted,
                    std::string_view kind, TypeCheck check);

// Refuses any other type or shape than the tensor's; nothing is converted. `kind` is for messages.
void require_same_type(std::string_view kind, const Tensor& tensor, npy::Element element,
                       const std::vector<uint64_t>& dims);

// The bytes of each input: from the files, or seeded where `options.seeded` is set; seeded ones
// with free dims are left out, since the other inputs may decide their sizes. Missing ones are all
// named.
Matched load_inputs(const Options& options, const std::vector<Tensor>& wanted);

// Random bytes for a tensor: normal floats, integers in [0, seeded_max), both values of bool. The
// same for the same name, type and seed on every machine.
npy::Array seeded_array(const Tensor& tensor, uint64_t seed, int64_t seeded_max);

// The present value of a free symbol.
uint64_t symbol_of(rlx_session* session, const EntryView& entry, const std::string& name);

// Gives a session symbols as they were asked for, then what the files hold, then what is seeded:
// its sizes are those that the others leave.
void give_inputs(rlx_session* session, const EntryView& entry, const Matched& inputs,
                 const Options& options);

// A tensor as an .npy file holds it; block formats are refused by a Failure.
npy::Array to_array(const Tensor& tensor, const std::vector<std::byte>& data);

}  // namespace rlx::tool
