# SPDX-License-Identifier: Apache-2.0
"""Embeds the lines of text files in batch, by Ray Data: as many encoders as there are GPUs, or --workers, each with a session of its own.

    python embed_lines.py encoder.plan LINES.txt... --output FOLDER [--device cuda] [--workers 4] [--address auto]

Writes Parquet files with the columns text and embedding (f32, length 1). Lines are read, embedded and written block by block: a million of
them, or a thousand million, take no more memory than a few blocks.
"""
import argparse
import sys

try:
    import numpy as np
    import ray
    import app
except ImportError as missing:
    sys.exit(f"error: {missing}: this wants pip install 'ray[serve,data]' ./dist/rlx-*.whl")


class EmbedBatch:
    def __init__(self, plan, device):
        self.encoder = app.SentenceEncoder(plan, device)

    def __call__(self, batch):
        rows, _ = self.encoder.embed(batch["text"])
        return {"text": batch["text"], "embedding": np.stack(rows)}


def main():
    options = argparse.ArgumentParser(description="Embeds lines in batch, by Ray Data")
    options.add_argument("plan")
    options.add_argument("lines", nargs="+")
    options.add_argument("--output", required=True)
    options.add_argument("--device", default="vulkan")
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--batch", type=int, default=1024, help="lines that a worker takes at once, to be put together by length")
    options.add_argument("--address")
    options = options.parse_args()
    ray.init(address=options.address, include_dashboard=False if options.address is None else None, log_to_driver=False)
    share = {"num_gpus": 1} if options.device.startswith("cuda") else {"num_cpus": 1}
    lines = ray.data.read_text(options.lines, drop_empty_lines=True)
    embedded = lines.map_batches(EmbedBatch, fn_constructor_args=(options.plan, options.device),
                                 batch_size=options.batch, compute=ray.data.ActorPoolStrategy(size=options.workers), **share)
    embedded.write_parquet(options.output)
    print(f"{ray.data.read_parquet(options.output).count()} lines embedded into {options.output}")


if __name__ == "__main__":
    main()
