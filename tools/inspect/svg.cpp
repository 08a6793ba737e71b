// SPDX-License-Identifier: Apache-2.0
#include "tools/inspect/svg.h"

#include "tools/inspect/format.h"

namespace rlx::inspect {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\n':
        result += "&#10;";
        break;
      default:
        result += static_cast<unsigned char>(c) < 0x20 ? '?' : c;  // XML has no control characters
    }
  }
  return result;
}

std::string attribute(std::string_view name, double value) {
  return " " + std::string(name) + "=\"" + three_digits(value) + "\"";
}

std::string text_at(double x, double y, std::string_view anchor, const std::string& text) {
  return "<text" + attribute("x", x) + attribute("y", y) + " text-anchor=\"" + std::string(anchor) +
         "\">" + escaped(text) + "</text>\n";
}

}  // namespace rlx::inspect
