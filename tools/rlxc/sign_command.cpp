// SPDX-License-Identifier: Apache-2.0
// `rlxc keygen` and `rlxc sign`.
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <span>

#include "runtime/base/input_file.h"
#include "runtime/base/output_file.h"
#include "tools/program/terminal.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/report.h"
#include "tools/sign/sign.h"

namespace rlx {
namespace {

constexpr uint64_t kMostKeyBytes = uint64_t{1} << 16;
constexpr mode_t kHiddenFromOthers = 077;

int refuse_status(const Status& status) {
  tool::say_error("rlxc", status.message());
  return status.code() == RLX_OUT_OF_HOST_MEMORY ? kExitResources : kExitInputRefused;
}

int keygen(const std::string& path) {
  const std::string public_path = path + ".pub";
  for (const std::string& taken : {path, public_path}) {
    if (::access(taken.c_str(), F_OK) == 0) {
      return usage_error("\"" + taken +
                         "\" exists: no key is written over; give another name, or remove it");
    }
  }
  KeyTexts texts;
  if (const Status status = make_key_texts(texts); !status.ok()) return refuse_status(status);
  const mode_t usual = ::umask(kHiddenFromOthers);
  const Status written = write_file(path, std::as_bytes(std::span(texts.private_pem)));
  ::umask(usual);
  if (!written.ok()) return report_written(written);
  const int code =
      report_written(write_file(public_path, std::as_bytes(std::span(texts.public_pem))));
  if (code == kExitOk) {
    std::printf(
        "%s: private key, for rlxc sign --key; keep it\n%s: public key, for rlxrun --trust signed "
        "--key\n",
        path.c_str(), public_path.c_str());
  }
  return code;
}

struct SignArguments {
  std::string plan;
  std::string key;
  std::string output;
  std::string weights_folder;
};

int sign(const SignArguments& arguments) {
  std::vector<std::byte> pem;
  if (const Status status = read_file(arguments.key, kMostKeyBytes, pem); !status.ok())
    return refuse_status(status);
  const std::string& output = arguments.output.empty() ? arguments.plan : arguments.output;
  std::string public_key;
  const Status status =
      sign_plan(arguments.plan,
                {.private_pem = {reinterpret_cast<const char*>(pem.data()), pem.size()},
                 .weights_folder = arguments.weights_folder},
                output, public_key);
  if (!status.ok()) return refuse_status(status);
  std::printf("%s: signed with key %s\n", output.c_str(), public_key.c_str());
  return kExitOk;
}

}  // namespace

void add_keygen_command(CLI::App& app, Action& action) {
  const auto path = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("keygen", "Make an Ed25519 key with which plans are signed");
  command
      ->add_option("-o,--output", *path,
                   "File of the private key, for its owner only; the public one is FILE.pub")
      ->required()
      ->type_name("FILE");
  command->callback([path, &action] { action = [path] { return keygen(*path); }; });
}

void add_sign_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<SignArguments>();
  CLI::App* command = app.add_subcommand(
      "sign", "Sign a plan, so that rlxrun --trust signed and the C API know whose it is");
  command->add_option("PLAN", arguments->plan, "Plan file")->required();
  command
      ->add_option("--key", arguments->key,
                   "Private key in PEM form: of rlxc keygen, or of openssl genpkey -algorithm "
                   "ed25519")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("-o,--output", arguments->output,
                   "Plan file to write (default: PLAN itself, replaced as a whole)")
      ->type_name("FILE");
  command
      ->add_option("--weights-folder", arguments->weights_folder,
                   "Where files with weights of the plan lie, which are signed too (default: the "
                   "plan's folder)")
      ->type_name("DIR");
  command->footer("Commands that write a plan anew (tune, self-test) take its signature away.");
  command->callback([arguments, &action] { action = [arguments] { return sign(*arguments); }; });
}

}  // namespace rlx
