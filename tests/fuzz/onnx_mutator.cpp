// SPDX-License-Identifier: Apache-2.0
// Mutations of ONNX models that stay models: fields change, move and repeat by protobuf's
// reflection, so that lengths are right. Every fourth mutation is libFuzzer's own, of bytes.
#include <google/protobuf/stubs/logging.h>
#include <onnx_mutated.pb.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kMaxDepth = 8;  // of messages that are visited
constexpr size_t kMaxMessages = 4096;

class Mutator {
 public:
  Mutator(onnx_mutated::ModelProto& model, unsigned seed) : random_(seed) { visit(model, 0); }

  void mutate() {
    Message& message = *messages_[below(messages_.size())];
    const auto* descriptor = message.GetDescriptor();
    if (descriptor->field_count() == 0) return;
    const FieldDescriptor* field =
        descriptor->field(static_cast<int>(below(static_cast<size_t>(descriptor->field_count()))));
    if (field->is_repeated()) {
      mutate_list(message, field);
    } else {
      mutate_field(message, field);
    }
  }

 private:
  size_t below(size_t count) { return count == 0 ? 0 : random_() % count; }

  // All messages of the model, and all of its strings, which are mostly names.
  void visit(Message& message, int depth) {
    if (depth > kMaxDepth || messages_.size() >= kMaxMessages) return;
    messages_.push_back(&message);
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
          visit(field->is_repeated() ? *reflection.MutableRepeatedMessage(&message, field, i)
                                     : *reflection.MutableMessage(&message, field),
                depth + 1);
        } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
          strings_.push_back(field->is_repeated() ? reflection.GetRepeatedString(message, field, i)
                                                  : reflection.GetString(message, field));
        }
      }
    }
  }

  int64_t integer(int64_t old) {
    constexpr std::array<int64_t, 20> kEdges = {0,
                                                1,
                                                -1,
                                                2,
                                                3,
                                                4,
                                                7,
                                                8,
                                                16,
                                                22,
                                                255,
                                                4096,
                                                65536,
                                                INT32_MAX,
                                                INT32_MIN,
                                                int64_t{1} << 40,
                                                int64_t{1} << 48,
                                                int64_t{1} << 62,
                                                INT64_MAX,
                                                INT64_MIN};
    switch (below(4)) {
      case 0:
        return static_cast<int64_t>(static_cast<uint64_t>(old) + below(7) - 3);
      case 1:
        return static_cast<int64_t>(random_());
      default:
        return kEdges.at(below(kEdges.size()));
    }
  }

  double real(double old) {
    switch (below(4)) {
      case 0:
        return -old;
      case 1:
        return old * 2;
      default:
        return std::array{0.0, 1.0, -1.0, 0.5, 1e30, 1e-30, 0.0 / 0.0, 1 / 0.0}.at(below(8));
    }
  }

  std::string text(const std::string& old) {
    if (below(2) == 0 && !strings_.empty()) return strings_[below(strings_.size())];
    std::vector<uint8_t> bytes(old.size() + 64);
    if (!old.empty()) std::memcpy(bytes.data(), old.data(), old.size());
    const size_t size = LLVMFuzzerMutate(bytes.data(), old.size(), bytes.size());
    return {reinterpret_cast<const char*>(bytes.data()), size};
  }

  // A copy of another message of that type, or nullptr. Taken before the target is made: setting
  // one alternative of a oneof frees the other, which may be the one that is copied.
  std::unique_ptr<Message> copy_of(const google::protobuf::Descriptor* type) {
    for (int attempt = 0; attempt < 16; ++attempt) {
      const Message* other = messages_[below(messages_.size())];
      if (other->GetDescriptor() != type) continue;
      std::unique_ptr<Message> copy(other->New());
      copy->CopyFrom(*other);
      return copy;
    }
    return nullptr;
  }

  void mutate_list(Message& message, const FieldDescriptor* field) {
    const Reflection& reflection = *message.GetReflection();
    const int count = reflection.FieldSize(message, field);
    const size_t choice = below(4);
    if (choice == 0 || count == 0) {
      add(message, field);
      return;
    }
    const auto at = static_cast<int>(below(static_cast<size_t>(count)));
    const auto other = static_cast<int>(below(static_cast<size_t>(count)));
    if (choice == 1) {
      reflection.SwapElements(&message, field, at, count - 1);
      reflection.RemoveLast(&message, field);
    } else if (choice == 2 && at != other) {
      reflection.SwapElements(&message, field, at, other);
    } else {
      change(message, field, at);
    }
  }

  void add(Message& message, const FieldDescriptor* field) {
    const Reflection& reflection = *message.GetReflection();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (const auto copy = copy_of(field->message_type())) {
          reflection.AddMessage(&message, field)->CopyFrom(*copy);
        } else {
          reflection.AddMessage(&message, field);
        }
        return;
      case FieldDescriptor::CPPTYPE_STRING:
        reflection.AddString(&message, field, text(""));
        return;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.AddInt64(&message, field, integer(1));
        return;
      case FieldDescriptor::CPPTYPE_UINT64:
        reflection.AddUInt64(&message, field, static_cast<uint64_t>(integer(1)));
        return;
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.AddInt32(&message, field, static_cast<int32_t>(integer(1)));
        return;
      case FieldDescriptor::CPPTYPE_FLOAT:
        reflection.AddFloat(&message, field, static_cast<float>(real(1)));
        return;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        reflection.AddDouble(&message, field, real(1));
        return;
      default:
        return;
    }
  }

  void change(Message& message, const FieldDescriptor* field, int i) {
    const Reflection& reflection = *message.GetReflection();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (const auto copy = copy_of(field->message_type()))
          reflection.MutableRepeatedMessage(&message, field, i)->CopyFrom(*copy);
        return;
      case FieldDescriptor::CPPTYPE_STRING:
        reflection.SetRepeatedString(&message, field, i,
                                     text(reflection.GetRepeatedString(message, field, i)));
        return;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.SetRepeatedInt64(&message, field, i,
                                    integer(reflection.GetRepeatedInt64(message, field, i)));
        return;
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.SetRepeatedInt32(
            &message, field, i,
            static_cast<int32_t>(integer(reflection.GetRepeatedInt32(message, field, i))));
        return;
      case FieldDescriptor::CPPTYPE_FLOAT:
        reflection.SetRepeatedFloat(
            &message, field, i,
            static_cast<float>(real(reflection.GetRepeatedFloat(message, field, i))));
        return;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        reflection.SetRepeatedDouble(&message, field, i,
                                     real(reflection.GetRepeatedDouble(message, field, i)));
        return;
      default:
        return;
    }
  }

  void mutate_field(Message& message, const FieldDescriptor* field) {
    const Reflection& reflection = *message.GetReflection();
    if (below(8) == 0) {
      reflection.ClearField(&message, field);
      return;
    }
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (const auto copy = copy_of(field->message_type()))
          reflection.MutableMessage(&message, field)->CopyFrom(*copy);
        return;
      case FieldDescriptor::CPPTYPE_STRING:
        reflection.SetString(&message, field, text(reflection.GetString(message, field)));
        return;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.SetInt64(&message, field, integer(reflection.GetInt64(message, field)));
        return;
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.SetInt32(&message, field,
                            static_cast<int32_t>(integer(reflection.GetInt32(message, field))));
        return;
      case FieldDescriptor::CPPTYPE_FLOAT:
        reflection.SetFloat(&message, field,
                            static_cast<float>(real(reflection.GetFloat(message, field))));
        return;
      case FieldDescriptor::CPPTYPE_ENUM:
        reflection.SetEnumValue(&message, field, static_cast<int>(below(24)));
        return;
      default:
        return;
    }
  }

  std::mt19937 random_;
  std::vector<Message*> messages_;
  std::vector<std::string> strings_;
};

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  static const google::protobuf::LogSilencer silencer;  // of strings that are no UTF-8
  onnx_mutated::ModelProto model;
  if (seed % 4 == 0 || !model.ParsePartialFromArray(data, static_cast<int>(size)))
    return LLVMFuzzerMutate(data, size, max_size);
  std::mt19937 random(seed);
  const size_t count = 1 + random() % 3;
  // Pointers to messages do not outlive a mutation.
  for (size_t i = 0; i < count; ++i) Mutator(model, random()).mutate();
  const size_t mutated = model.ByteSizeLong();
  if (mutated > max_size) return LLVMFuzzerMutate(data, size, max_size);
  model.SerializePartialToArray(data, static_cast<int>(mutated));
  return mutated;
}
