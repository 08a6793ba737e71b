// SPDX-License-Identifier: Apache-2.0
#include "tools/request/check_text.h"

#include <memory>
#include <string>

#include "runtime/text/jinja.h"
#include "runtime/text/text.h"

namespace rlx {

void check_text(std::span<const std::byte> section, const SourcePlace& place,
                Diagnostics& diagnostics) {
  if (section.empty()) return;
  std::shared_ptr<const TextModel> model;
  if (const Status status = TextModel::open(section, model); !status.ok()) {
    diagnostics.error(DiagCode::FileFormat, place, "the model's tokenizer: " + status.message());
    return;
  }
  for (const ChatTemplateText& chat : model->facts().templates) {
    const std::string name = chat.name.empty() ? "" : " \"" + chat.name + "\"";
    for (const std::string& fault : jinja::check_template(chat.source)) {
      diagnostics.warning(DiagCode::FileFormat, place,
                          "the model's chat template" + name + ": " + fault,
                          "conversations that get there are refused; prompts by ids are not");
    }
  }
}

}  // namespace rlx
