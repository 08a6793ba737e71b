#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds rlxrun with SmolLM2-135M-Instruct to the exact replies of greedy.json.

    check.py RLXC RLXRUN [--fetch] [--device vulkan] [--target vulkan] [--precision f32] [--tokens 64] [--cases 5]

greedy.json has five prompts and, for each, the tokens that follow when weights are dequantised and all arithmetic is in f64: the
likeliest one each time. In f32 rlxrun gives the same ones. For prompts that are conversations, the plan's template and tokenizer
must give the prompt's ids too. Needs the model that set_up fetches, as --fetch does here; without it says so and ends with code 3.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE / "model/SmolLM2-135M-Instruct.Q4_1.gguf"
CONVERSATION = re.compile(r"<\|im_start\|>system\n(.*?)<\|im_end\|>\n<\|im_start\|>user\n(.*)<\|im_end\|>\n<\|im_start\|>assistant\n",
                          re.DOTALL)


def turn(arguments, plan, *options):
    command = [arguments.rlxrun, plan, "--device", arguments.device, "--json", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return json.loads(done.stdout)["turns"][0]


def check(arguments, plan, case):
    wanted = case["ids"][: arguments.tokens]
    spoken = CONVERSATION.fullmatch(case["prompt"])
    prompt = (["--system", spoken[1], "--chat", spoken[2]] if spoken else
              ["--prompt-ids", ",".join(map(str, case["prompt_ids"]))])
    got = turn(arguments, plan, *prompt, "-n", str(len(wanted)))
    right = next((i for i, (a, b) in enumerate(zip(got["ids"], wanted)) if a != b), min(len(got["ids"]), len(wanted)))
    good = got["ids"] == wanted and got["prompt_ids"] == case["prompt_ids"]
    print(f"{'right' if good else 'WRONG'}: {right} of {len(wanted)} tokens, prompt of {len(got['prompt_ids'])} in "
          f"{got['prompt_ms']:.1f} ms, {got['tokens_per_second']:.2f} tokens/s: {got['text'][:60]!r}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rlxc", type=pathlib.Path)
    parser.add_argument("rlxrun", type=pathlib.Path)
    parser.add_argument("--fetch", action="store_true", help="run set_up first")
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--target", default="vulkan")
    parser.add_argument("--precision", default="f32")
    parser.add_argument("--tokens", type=int, default=64, help="of each reply, at most")
    parser.add_argument("--cases", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.fetch and (code := subprocess.run([HERE / "set_up"]).returncode) != 0:
        sys.exit(code)
    if not MODEL.exists():
        print("SKIPPED: examples/chat/set_up was not run")
        sys.exit(3)
    cases = json.loads((HERE / "greedy.json").read_text())["cases"][: arguments.cases]
    with tempfile.TemporaryDirectory() as folder:
        plan = pathlib.Path(folder) / "chat.plan"
        subprocess.run([arguments.rlxc, MODEL, "-o", plan, "--quiet", "--target", arguments.target, "--precision", arguments.precision,
                        "--ctx", "512", "--chunks", "1,32,128"], check=True)
        good = [check(arguments, plan, case) for case in cases]
    sys.exit(0 if all(good) else 4)


if __name__ == "__main__":
    main()
