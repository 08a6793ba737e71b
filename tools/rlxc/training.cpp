// SPDX-License-Identifier: Apache-2.0
// --grad and --optimizer.
#include "tools/rlxc/training.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <map>

namespace rlx {
namespace {

const std::map<std::string, Optimizer>& optimizers() {
  static const std::map<std::string, Optimizer> names = {
      {"sgd", Optimizer::Sgd}, {"adam", Optimizer::Adam}, {"adamw", Optimizer::AdamW}};
  return names;
}

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good =
      error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  return good ? std::optional(value) : std::nullopt;
}

}  // namespace

void add_training_options(CLI::App& command, TrainingArguments& arguments) {
  TrainingOptions& options = arguments.options;
  command.add_option("--grad", options.loss,
                     "Value of the model, a float scalar, whose gradients are outputs grad.NAME; "
                     "with --optimizer the loss of a training step");
  command
      .add_option("--wrt", options.wanted,
                  "Params (and, without --optimizer, inputs) to differentiate by, with commas "
                  "between (default: every float param)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option("--frozen", options.frozen, "Params that are not trained, with commas between")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option(
      "--optimizer", arguments.optimizer,
      "sgd, adam or adamw: params become states, and the entries are train and eval");
  command.add_option("--lr", arguments.rate,
                     "Learning rate, or \"input\": a scalar input lr of each training run "
                     "(default: 1e-3)");
  command.add_option("--momentum", options.momentum, "Of sgd");
  command.add_option("--dampening", options.dampening, "Of sgd's momentum");
  command.add_flag("--nesterov", options.nesterov, "Of sgd's momentum");
  command.add_option("--beta1", options.beta1, "Of adam and adamw")->capture_default_str();
  command.add_option("--beta2", options.beta2, "Of adam and adamw")->capture_default_str();
  command.add_option("--adam-eps", options.eps, "Of adam and adamw")->capture_default_str();
  command.add_option("--weight-decay", options.weight_decay,
                     "Added to gradients; adamw takes it from the params instead");
  command.add_option("--clip-norm", options.clip_norm,
                     "Largest norm of all gradients together; longer ones are scaled, and the norm "
                     "is an output grad_norm");
  command
      .add_option("--accumulate", options.accumulate,
                  "Micro-batches of a step: N - 1 runs of the entry accumulate, then one of train")
      ->check(CLI::Range(1, 65536));
}

std::optional<std::string> find_training_misuse(TrainingArguments& arguments) {
  TrainingOptions& options = arguments.options;
  const TrainingOptions usual;
  const bool has_numbers = !arguments.rate.empty() || options.momentum != 0 ||
                           options.dampening != 0 || options.nesterov ||
                           options.beta1 != usual.beta1 || options.beta2 != usual.beta2 ||
                           options.eps != usual.eps || options.weight_decay != 0 ||
                           options.clip_norm != 0 || options.accumulate != 1;
  if (options.loss.empty()) {
    const bool any = has_numbers || !arguments.optimizer.empty() || !options.wanted.empty() ||
                     !options.frozen.empty();
    if (!any) return std::nullopt;
    return "gradients and training steps are of a loss: --grad LOSS is missing";
  }
  if (arguments.optimizer.empty()) {
    if (!has_numbers) return std::nullopt;
    return "--lr, --momentum and the like are for a training step: --optimizer is missing";
  }
  const auto found = optimizers().find(arguments.optimizer);
  if (found == optimizers().end())
    return "--optimizer \"" + arguments.optimizer + "\" is unknown; there are sgd, adam and adamw";
  options.optimizer = found->second;
  const bool is_sgd = options.optimizer == Optimizer::Sgd;
  if (!is_sgd && (options.momentum != 0 || options.dampening != 0 || options.nesterov))
    return "--momentum, --dampening and --nesterov are for --optimizer sgd";
  if (is_sgd &&
      (options.beta1 != usual.beta1 || options.beta2 != usual.beta2 || options.eps != usual.eps))
    return "--beta1, --beta2 and --adam-eps are for --optimizer adam and adamw";
  if (options.momentum == 0 && (options.dampening != 0 || options.nesterov))
    return "--dampening and --nesterov want --momentum";
  if (options.nesterov && options.dampening != 0)
    return "--nesterov and --dampening exclude each other";
  const auto is_share = [](double value) { return value > 0 && value < 1; };
  if (!is_share(options.beta1) || !is_share(options.beta2))
    return "--beta1 and --beta2 lie between 0 and 1";
  if (!(options.momentum >= 0) || !(options.eps >= 0) || !(options.weight_decay >= 0) ||
      !(options.clip_norm >= 0) || !(options.dampening >= 0 && options.dampening <= 1))
    return "--momentum, --adam-eps, --weight-decay and --clip-norm are not negative, --dampening "
           "is at most 1";
  if (arguments.rate == "input") {
    options.lr_is_input = true;
  } else if (!arguments.rate.empty()) {
    const std::optional<double> rate = number_of(arguments.rate);
    if (!rate) return "--lr \"" + arguments.rate + "\" is neither a number nor \"input\"";
    options.lr = *rate;
  }
  return std::nullopt;
}

bool apply_training(Module& module, const TrainingArguments& arguments, Diagnostics& diagnostics) {
  if (arguments.options.loss.empty()) return true;
  return arguments.options.optimizer ? make_training_step(module, arguments.options, diagnostics)
                                     : add_gradients(module, arguments.options, diagnostics);
}

}  // namespace rlx
