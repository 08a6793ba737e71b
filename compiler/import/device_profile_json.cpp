// SPDX-License-Identifier: Apache-2.0
// Profiles of devices, from JSON and back.
#include "compiler/import/device_profile_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compiler/import/json_fields.h"
#include "compiler/import/model_files.h"
#include "compiler/import/names.h"

namespace rlx {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kProfileVersion = 1;
constexpr size_t kMostProfileBytes = size_t{1} << 20;
constexpr size_t kMostTextBytes = 400;

// ---- writing ----

Json number_json(const DeviceNumber& number) {
  if (number.whole()) return static_cast<uint64_t>(number.value());
  return number.value();
}

Json fit_json(const DeviceFit& fit) {
  return {{"samples", fit.samples},
          {"median_before", fit.median_before},
          {"worst_before", fit.worst_before},
          {"median_after", fit.median_after},
          {"worst_after", fit.worst_after}};
}

Json column_json(DeviceColumn& column) {
  Json json = {{"fitted_from", column.fitted_from}, {"fits", Json::object()}};
  for (const DeviceFit& fit : column.fits) json["fits"][fit.number] = fit_json(fit);
  for (const DeviceNumber& number : numbers_of(column.model, *find_target(column.target))) {
    Json& group = number.group.empty() ? json : json[std::string(number.group)];
    group[std::string(number.name)] = number_json(number);
  }
  return json;
}

// ---- reading ----

std::string number_text(double value) {
  return Json(value).dump();
}

std::string range_text(const DeviceNumber& number) {
  const auto limit = [&](double value) {
    return number.whole() ? std::to_string(static_cast<uint64_t>(value)) : number_text(value);
  };
  return (number.whole() ? "a whole number from " : "a number from ") + limit(number.least) +
         " to " + limit(number.most);
}

class ProfileReader {
 public:
  ProfileReader(const std::string& file, Diagnostics& diagnostics) : errors_{file, diagnostics} {}

  DeviceProfile read(const JsonValue& root) {
    JsonFields fields(errors_, root, "", "device model", {"rlx_device_model", "name", "targets"});
    const std::optional<int64_t> version = fields.required_integer("rlx_device_model");
    if (version && *version != kProfileVersion) {
      fields.fail(DiagCode::UnsupportedVersion,
                  "device model of version " + std::to_string(*version) + ", wanted 1",
                  "`rlxc device-models h200` prints one");
    }
    DeviceProfile profile{.name = fields.required_text("name"), .columns = {}};
    if (const auto fault = name_fault(profile.name); fault && fields.find("name") != nullptr)
      fields.fail(DiagCode::BadField, "the name of the device model " + *fault);
    if (const JsonValue* targets = fields.required("targets"))
      profile.columns = columns(fields, *targets);
    return profile;
  }

 private:
  std::vector<DeviceColumn> columns(JsonFields& fields, const JsonValue& value) {
    const JsonObject* object = value.object();
    if (object == nullptr) {
      fields.wrong_type("targets", value, "an object with a model for each target");
      return {};
    }
    if (object->empty()) {
      fields.fail(DiagCode::BadField, "the device model has no target",
                  "`rlxc device-models h200` prints one that has them all");
    }
    std::vector<DeviceColumn> columns;
    for (const JsonMember& member : *object) {
      const std::string pointer = "/targets" + pointer_step(member.key);
      if (const Target* target = find_target(member.key)) {
        columns.push_back(column(*target, member.value, pointer));
      } else {
        errors_.add(DiagCode::UnsupportedTarget, pointer,
                    "target " + in_quotes(member.key) + " is unknown",
                    "targets are: " + target_names());
      }
    }
    return columns;
  }

  static std::string target_names() {
    std::vector<std::string_view> names;
    for (const Target& target : all_targets()) names.push_back(target.name);
    return list_names(names);
  }

  DeviceColumn column(const Target& target, const JsonValue& value, const std::string& pointer) {
    DeviceColumn column{
        .target = std::string(target.name), .fitted_from = {}, .model = {}, .fits = {}};
    column.model.shared_bytes = target.device.shared_bytes;
    const std::vector<DeviceNumber> numbers = numbers_of(column.model, target);
    std::vector<std::string_view> known = {"fitted_from", "fits"};
    for (const DeviceNumber& number : numbers) {
      const std::string_view name = number.group.empty() ? number.name : number.group;
      if (known.back() != name) known.push_back(name);
    }
    JsonFields fields(errors_, value, pointer, "the model for " + column.target, known);
    column.fitted_from = fields.required_text("fitted_from");
    if (const auto fault = text_fault(column.fitted_from, kMostTextBytes))
      fields.fail(DiagCode::BadField, "\"fitted_from\" " + *fault);
    if (const JsonValue* fits = fields.required("fits"))
      column.fits = read_fits(*fits, pointer + "/fits", numbers);
    read_numbers(fields, numbers);
    return column;
  }

  // Groups stand one after another.
  void read_numbers(JsonFields& fields, std::span<const DeviceNumber> numbers) {
    while (!numbers.empty()) {
      const std::string_view group = numbers.front().group;
      const auto end =
          std::find_if(numbers.begin(), numbers.end(),
                       [&](const DeviceNumber& number) { return number.group != group; });
      const auto count = static_cast<size_t>(end - numbers.begin());
      if (group.empty()) {
        for (const DeviceNumber& number : numbers.first(count)) read_number(fields, number);
      } else if (const JsonValue* value = fields.required(group)) {
        read_group(*value, fields.pointer() + "/" + std::string(group), numbers.first(count));
      }
      numbers = numbers.subspan(count);
    }
  }

  void read_group(const JsonValue& value, const std::string& pointer,
                  std::span<const DeviceNumber> numbers) {
    std::vector<std::string_view> known;
    for (const DeviceNumber& number : numbers) known.push_back(number.name);
    JsonFields fields(errors_, value, pointer, in_quotes(numbers.front().group), known);
    for (const DeviceNumber& number : numbers) read_number(fields, number);
  }

  static void read_number(JsonFields& fields, const DeviceNumber& number) {
    const JsonValue* json = fields.required(number.name);
    if (json == nullptr) return;
    const double* real = std::get_if<double>(&json->data);
    if (real == nullptr && json->integer() == nullptr) {
      fields.wrong_type(number.name, *json, range_text(number));
      return;
    }
    const double value = real != nullptr ? *real : static_cast<double>(*json->integer());
    const bool fits = value >= number.least && value <= number.most &&
                      (!number.whole() || value == std::floor(value));
    if (fits) return number.set(value);
    fields.fail(DiagCode::BadField,
                "field " + in_quotes(number.name) + " is " + number_text(value) + ", wanted " +
                    range_text(number),
                "it is " + (number.unit.empty() ? "" : std::string(number.unit) + ", ") +
                    std::string(number.meaning));
  }

  std::vector<DeviceFit> read_fits(const JsonValue& value, const std::string& pointer,
                                   std::span<const DeviceNumber> numbers) {
    std::vector<std::string> paths;
    for (const DeviceNumber& number : numbers) paths.push_back(number.path());
    JsonFields fields(errors_, value, pointer, "\"fits\"",
                      std::vector<std::string_view>(paths.begin(), paths.end()));
    std::vector<DeviceFit> fits;
    for (const std::string& path : paths) {
      const JsonValue* fit = fields.find(path);
      if (fit != nullptr) fits.push_back(read_fit(path, *fit, pointer + pointer_step(path)));
    }
    return fits;
  }

  DeviceFit read_fit(const std::string& path, const JsonValue& value, const std::string& pointer) {
    JsonFields fields(errors_, value, pointer, in_quotes(path),
                      {"samples", "median_before", "worst_before", "median_after", "worst_after"});
    const auto error = [&](std::string_view key) {
      if (fields.required(key) == nullptr) return 0.0;
      const double real = fields.real(key, 0);
      if (!std::isfinite(real) || real < 0)
        fields.fail(DiagCode::BadField, "field " + in_quotes(key) + " is no relative error");
      return real;
    };
    const std::optional<int64_t> samples = fields.required_integer("samples");
    if (samples && (*samples < 1 || *samples > (1 << 20)))
      fields.fail(DiagCode::BadField,
                  "field \"samples\" is " + std::to_string(*samples) + ", wanted 1 to 1048576");
    return {.number = path,
            .samples = static_cast<uint32_t>(samples.value_or(0)),
            .median_before = error("median_before"),
            .worst_before = error("worst_before"),
            .median_after = error("median_after"),
            .worst_after = error("worst_after")};
  }

  JsonErrors errors_;
};

}  // namespace

std::string device_profile_json(DeviceProfile profile) {
  Json json = {{"rlx_device_model", kProfileVersion}, {"name", profile.name}};
  for (DeviceColumn& column : profile.columns) json["targets"][column.target] = column_json(column);
  return json.dump(2) + "\n";
}

std::optional<DeviceProfile> parse_device_profile(std::string_view text, const std::string& file,
                                                  Diagnostics& diagnostics) {
  if (text.size() > kMostProfileBytes) {
    diagnostics.error(DiagCode::Limit, {file, ""}, "a device model of more than 1 MiB");
    return std::nullopt;
  }
  const std::optional<JsonValue> root = parse_json(text, file, diagnostics);
  if (!root) return std::nullopt;
  const size_t errors_before = diagnostics.error_count();
  DeviceProfile profile = ProfileReader(file, diagnostics).read(*root);
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return profile;
}

std::optional<DeviceProfile> read_device_profile(const std::string& path,
                                                 Diagnostics& diagnostics) {
  const FileResult file = map_file(path);
  if (const auto* fault = std::get_if<FileFault>(&file)) {
    diagnostics.error(fault->code, {path, ""}, "the file " + fault->message);
    return std::nullopt;
  }
  const std::span<const std::byte> bytes =
      std::get<std::shared_ptr<const MappedFile>>(file)->bytes();
  return parse_device_profile({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path,
                              diagnostics);
}

}  // namespace rlx
