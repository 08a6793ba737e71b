# SPDX-License-Identifier: Apache-2.0
"""Requests to the application of app.py, with a replica killed in the middle: every one must be answered, and rightly.

    python load_test.py MODEL EXPECTED.npy [--count 10000] [--clients 32] [--replicas 2] [--device vulkan] [--no-kill]

With --replicas LEAST:MOST it watches how many run, and waits after the load until the least are left. --until-scaled: the load goes on until the
most run, however long a busy machine takes, and where they do not come, or do not go, the exit code is 1.

MODEL is a plan of examples/mnist with the batch free, or that model for onnxruntime (.onnx). EXPECTED: the digits of
examples/mnist/images.npy. Prints p50 and p99, requests a second, and what was lost or wrong; exit code 1 where anything was. Ends after
--seconds in any case: what has no answer by then is lost.
"""
import argparse
import asyncio
import itertools
import os
import pathlib
import signal
import sys
import threading
import time

try:
    import aiohttp
    import numpy as np
    import app
except ImportError as missing:
    sys.exit(f"error: {missing}: this wants pip install 'ray[serve,data]' ./dist/rlx-*.whl")

IMAGES = pathlib.Path(__file__).resolve().parent.parent / "mnist" / "images.npy"


def kill_a_replica():
    """Ends the process of one replica of `digits` on this machine, as a crash would."""
    process = app.serve.get_deployment_handle("digits", "rlx").process.remote().result()
    os.kill(process, signal.SIGKILL)
    return process


class Watch:
    """How many replicas of `digits` run, as it changes: [(seconds, replicas), ...]."""

    def __init__(self):
        self.begin, self.changes, self.ended = time.monotonic(), [], threading.Event()
        self.most = 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended.wait(0.25):
            states = app.serve.status().applications["rlx"].deployments["digits"].replica_states
            running = states.get("RUNNING", 0)
            self.most = max(self.most, running)
            if not self.changes or self.changes[-1][1] != running:
                self.changes.append((time.monotonic() - self.begin, running))

    def wait_for(self, replicas, limit):
        end = time.monotonic() + limit
        while self.now() != replicas and time.monotonic() < end:
            time.sleep(0.25)
        return self.now() == replicas

    def now(self):
        return self.changes[-1][1] if self.changes else 0

    def stop(self):
        self.ended.set()
        self.thread.join()
        return ", ".join(f"{replicas} at {seconds:.0f} s" for seconds, replicas in self.changes)


def until(watch, most):
    """Numbers until so many replicas have been seen."""
    for number in itertools.count():
        if watch.most >= most:
            return
        yield number


async def send(options, images, expected, numbers):
    times, wrong, lost, killed = [], [], [], []
    url = f"http://127.0.0.1:{options.port}/digits"
    loop = asyncio.get_running_loop()
    end = time.monotonic() + options.seconds

    async def client(session):
        for number in numbers:
            if time.monotonic() > end:
                return
            if number == options.count // 2 and not options.no_kill:
                killed.append(await loop.run_in_executor(None, kill_a_replica))
            which = number % len(images)
            begin = time.perf_counter()
            try:
                async with session.post(url, data=images[which].tobytes(),
                                        timeout=aiohttp.ClientTimeout(total=max(0.1, end - time.monotonic()))) as answer:
                    digit = (await answer.json())["digit"] if answer.status == 200 else None
            except (aiohttp.ClientError, asyncio.TimeoutError):
                digit = None
            times.append(time.perf_counter() - begin)
            if digit is None:
                lost.append(number)
            elif digit != expected[which]:
                wrong.append(number)

    begin = time.monotonic()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=options.clients)) as session:
        await asyncio.gather(*(client(session) for _ in range(options.clients)))
    return np.array(times), wrong, lost, killed, time.monotonic() - begin


def main():
    options = argparse.ArgumentParser(description="Requests with a replica killed in the middle")
    options.add_argument("model")
    options.add_argument("expected")
    options.add_argument("--count", type=int, default=10000)
    options.add_argument("--clients", type=int, default=32)
    options.add_argument("--seconds", type=float, default=1800)
    options.add_argument("--no-kill", action="store_true")
    options.add_argument("--until-scaled", action="store_true")
    options.add_argument("--replicas", default="2")
    options.add_argument("--scale-seconds", default="30:600")
    options.add_argument("--device", default="vulkan")
    options.add_argument("--port", default="8123")
    options.add_argument("--metrics-port", default="8124")
    options = options.parse_args()
    application = app.parser().parse_args(["--digits", options.model, "--device", options.device, "--replicas", options.replicas,
                                           "--scale-seconds", options.scale_seconds, "--port", options.port,
                                           "--metrics-port", options.metrics_port])
    app.start(application)
    images, expected = np.load(IMAGES), np.load(options.expected).reshape(-1)
    least, most = application.replicas
    watch = Watch() if least < most else None
    if options.until_scaled and watch is None:
        sys.exit("error: --until-scaled wants --replicas LEAST:MOST")
    numbers = until(watch, most) if options.until_scaled else iter(range(options.count))
    times, wrong, lost, killed, seconds = asyncio.run(send(options, images, expected, numbers))
    p50, p99 = np.percentile(times, [50, 99]) * 1e3
    engine = "onnxruntime" if options.model.endswith(".onnx") else f"rlx on {options.device}"
    print(f"{engine}: {len(times)} requests by {options.clients} clients to {options.replicas} replicas in {seconds:.1f} s, "
          f"{len(times) / seconds:.0f} a second; p50 {p50:.1f} ms, p99 {p99:.1f} ms; "
          f"{len(killed)} replica killed, {len(lost)} lost, {len(wrong)} wrong")
    scaled = True
    if watch:
        is_back = watch.wait_for(least, max(2 * application.scale_seconds[1] + 60, options.seconds if options.until_scaled else 0))
        scaled = not options.until_scaled or watch.most >= most and is_back
        print(f"replicas: {watch.stop()}; the load ended at {seconds:.0f} s")
    app.serve.shutdown()
    app.ray.shutdown()
    complete = len(times) == options.count or options.until_scaled
    sys.exit(1 if lost or wrong or not complete or not scaled else 0)


if __name__ == "__main__":
    main()
