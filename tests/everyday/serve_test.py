#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/serve as clients meet it: digits right and wrong requests refused, chat replies in OpenAI's form whole and as events, models,
health, metrics, a replica killed, replicas that come and go. Exits 77, which counts as skipped, where ray or the package rlx is missing.

    python3 tests/everyday/serve_test.py BUILD_DIR
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(sys.argv[1]).resolve()
PATHS = [str(BUILD / "python"), str(ROOT / "examples" / "serve")]
sys.path[:0] = PATHS
os.environ["PYTHONPATH"] = ":".join([*PATHS, os.environ.get("PYTHONPATH", "")])
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0", RAY_raylet_start_wait_time_s="120",
                  RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S="60",
                  RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S="60")
try:
    import numpy as np
    import ray.serve  # noqa: F401
    import rlx
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(77)
if not any(device.id.startswith("vulkan") for device in rlx.devices()):
    print("SKIPPED: no Vulkan device; mesa-vulkan-drivers has one")
    sys.exit(77)
import app  # noqa: E402
import load_test  # noqa: E402

PORT, METRICS_PORT = 8125, 8126


def ask(path, body=None, code=200):
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", data), timeout=240) as answer:
            got, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        got, text = error.code, error.read().decode()
    if got != code:
        sys.exit(f"{path}: code {got}, wanted {code}: {text}")
    return text


def expect(condition, text):
    if not condition:
        sys.exit(f"not so: {text}")


def check_digits(images, expected):
    for which in range(4):
        expect(json.loads(ask("/digits", images[which].tobytes()))["digit"] == expected[which], f"digit {which}")
    expect("784 bytes, got 3" in ask("/digits", b"abc", 400), "an image of 3 bytes is refused")
    expect("no route" in ask("/none", code=404), "an unknown route is refused")


def check_chat():
    body = {"model": "chat", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 6, "temperature": 0}
    whole = json.loads(ask("/v1/chat/completions", body))
    events = [line[len("data: "):] for line in
              ask("/v1/chat/completions", {**body, "stream": True, "stream_options": {"include_usage": True}}).splitlines() if line]
    expect(events.pop() == "[DONE]", "a stream ends with [DONE]")
    chunks = [json.loads(event) for event in events]
    text = "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])
    expect(text == whole["choices"][0]["message"]["content"], f"events {text!r} make the whole reply {whole}")
    reasons = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"] if choice["finish_reason"]]
    expect(reasons == [whole["choices"][0]["finish_reason"]], reasons)
    expect(chunks[-1]["usage"] == whole["usage"] and whole["usage"]["completion_tokens"] == 6, whole["usage"])
    expect("not offered: tools" in ask("/v1/chat/completions", {**body, "tools": []}, 400), "what is not offered is refused by name")
    expect("messages must be" in ask("/v1/chat/completions", {"messages": "hi"}, 400), "messages of wrong form are refused")
    expect("is no JSON" in ask("/v1/chat/completions", b"{", 400), "a body that is no JSON is refused")
    long = {**body, "messages": [{"role": "user", "content": "hello " * 4000}]}
    expect("context holds" in ask("/v1/chat/completions", long, 400), "a prompt that is too long is refused")


def check_scaling(plan, digits):
    """A second replica comes under load and goes after it; a busy machine may take minutes for either."""
    done = subprocess.run([sys.executable, load_test.__file__, plan, digits, "--replicas", "1:2", "--scale-seconds", "1:3", "--clients", "80",
                           "--seconds", "240", "--until-scaled", "--no-kill", "--port", str(PORT), "--metrics-port", str(METRICS_PORT)],
                          capture_output=True, text=True, timeout=900)
    print(done.stdout.strip())
    expect(done.returncode == 0, f"replicas come and go: {done.stdout[-500:]} {done.stderr[-500:]}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        plan, chat, out = (str(pathlib.Path(folder, name)) for name in ("mnist.plan", "chat.plan", "out"))
        mnist = ROOT / "examples" / "mnist"
        for command in ([BUILD / "bin" / "rlxc", mnist / "mnist.json", "-o", plan, "--target", "vulkan", "--dim", "batch=1:32"],
                        [BUILD / "bin" / "rlxc", "reference", mnist / "mnist.json", "--dim", "batch=100", "--inputs",
                         f"images={mnist / 'images.npy'}", "--outputs", out], [BUILD / "bin" / "rlx_write_language_plan", chat]):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        options = app.parser().parse_args(["--digits", plan, "--chat", chat, "--replicas", "2", "--port", str(PORT),
                                           "--metrics-port", str(METRICS_PORT)])
        app.start(options)
        images, expected = np.load(load_test.IMAGES), np.load(pathlib.Path(out, "digits.npy")).reshape(-1)
        check_digits(images, expected)
        check_chat()
        expect([each["id"] for each in json.loads(ask("/v1/models"))["data"]] == ["chat", "digits"], "models")
        load_test.kill_a_replica()
        check_digits(images, expected)
        for _ in range(60):  # Ray gathers them every few seconds
            told = urllib.request.urlopen(f"http://127.0.0.1:{METRICS_PORT}/metrics", timeout=60).read().decode()
            if "rlx_digits_batch_rows" in told and "rlx_chat_tokens" in told:
                break
            time.sleep(1)
        else:
            sys.exit("the metrics of the replicas never came")
        app.serve.shutdown()
        app.ray.shutdown()
        check_scaling(plan, str(pathlib.Path(out, "digits.npy")))
    print("serve: digits, chat, refusals, models, health and metrics; a killed replica was not noticed")


if __name__ == "__main__":
    main()
