// SPDX-License-Identifier: Apache-2.0
// What filters and methods of texts share.
#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/text/jinja_builtin.h"

namespace rlx::jinja {
namespace {

class Formatter {
 public:
  Formatter(const Values& values, const MarkedText& format, const std::vector<Value>& arguments)
      : values_(values), format_(format), arguments_(arguments) {}

  MarkedText run() {
    const std::string_view bytes = format_.bytes();
    size_t at = 0;
    for (size_t sign = bytes.find('%'); sign != std::string_view::npos;
         sign = bytes.find('%', at)) {
      out_.append_part(format_, at, sign - at);
      place(sign + 1 < bytes.size() ? bytes[sign + 1] : '\0', sign);
      at = sign + 2;
    }
    out_.append_part(format_, at, bytes.size() - at);
    if (next_ != arguments_.size()) {
      throw Fault{text_of("a format takes ", next_, " values, got ", arguments_.size())};
    }
    return out_.text();
  }

 private:
  void place(char letter, size_t sign) {
    if (letter == '%') return out_.append_part(format_, sign, 1);
    if (letter != 's' && letter != 'd' && letter != 'i' && letter != 'r') {
      throw Fault{"formats are supported with %s, %d, %i, %r and %% alone"};
    }
    if (next_ == arguments_.size()) {
      throw Fault{text_of("a format takes more values than the ", arguments_.size(), " given")};
    }
    const Value& value = arguments_[next_++];
    if (letter == 's') return values_.write_str(out_, value);
    if (letter == 'r') return values_.write_repr(out_, value);
    if (!is_number(value)) throw Fault{text_of("%d wants a number, got ", kind_text(value))};
    const int64_t whole = value.is(Kind::Float)  ? whole_of(value.real())
                          : value.is(Kind::Bool) ? value.boolean()
                                                 : value.integer();
    out_.append(std::to_string(whole));
  }

  static int64_t whole_of(double real) {
    if (real > -0x1p63 && real < 0x1p63) return static_cast<int64_t>(real);
    throw Fault{"%d wants a number of 64 bits"};
  }

  const Values& values_;
  const MarkedText& format_;
  const std::vector<Value>& arguments_;
  TextBuilder out_{values_.budget()};
  size_t next_ = 0;
};

bool ends_line(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

}  // namespace

MarkedText joined(const Values& values, const std::vector<Value>& items,
                  const MarkedText& between) {
  TextBuilder out(values.budget());
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(between);
    values.write_str(out, items[i]);
  }
  return out.text();
}

MarkedText replaced(const Values& values, const MarkedText& text, std::string_view old,
                    const MarkedText& by, std::optional<int64_t> most) {
  const std::string_view bytes = text.bytes();
  values.step_search(bytes, old);
  const auto limit = most && *most >= 0 ? static_cast<uint64_t>(*most) : UINT64_MAX;
  TextBuilder out(values.budget());
  size_t copied = 0;
  size_t at = 0;
  for (uint64_t count = 0; count < limit; ++count) {
    const size_t found = bytes.find(old, at);
    if (found == std::string_view::npos) break;
    out.append_part(text, copied, found - copied);
    out.append(by);
    copied = found + old.size();
    if (old.empty() && found == bytes.size()) break;
    at = old.empty() ? found + character_bytes(bytes, found) : copied;
  }
  out.append_part(text, copied, bytes.size() - copied);
  return out.text();
}

MarkedText formatted(const Values& values, const MarkedText& format,
                     const std::vector<Value>& arguments) {
  return Formatter(values, format, arguments).run();
}

std::vector<MarkedText> lines_of(const MarkedText& text) {
  std::vector<MarkedText> lines;
  const std::string_view bytes = text.bytes();
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = character_bytes(bytes, at);
    if (!ends_line(character_at(bytes, at))) {
      at += size;
      continue;
    }
    lines.push_back(text.part(begin, at - begin));
    at += bytes.substr(at, 2) == "\r\n" ? 2 : size;
    begin = at;
  }
  if (begin < bytes.size()) lines.push_back(text.part(begin, bytes.size() - begin));
  return lines;
}

}  // namespace rlx::jinja
