# SPDX-License-Identifier: Apache-2.0
"""The tables of run.py, made of the records in a folder."""
import json

import models

PEERS = ("eager", "graph", "compile")
TARGETS = ("cuda", "vulkan")


def load(folder):
    """(workload, system) -> record."""
    records = {}
    for path in sorted(folder.glob("*.json")):
        workload, system = path.stem.rsplit(".", 1)
        records[(workload, system)] = json.loads(path.read_text())
    return records


class Row:
    """One workload's records, and what follows from them. Times are milliseconds; None where not measured."""

    def __init__(self, records, workload):
        self.workload = workload
        self.records = {system: record for (name, system), record in records.items() if name == workload.name}
        self.ceilings = records.get(("machine", "ceilings"), {})

    def get(self, system, key):
        return self.records.get(system, {}).get(key)

    def error(self, system):
        return (self.get(system, "error") or {}).get("relative")

    def best_peer(self):
        """Name of the fastest mode."""
        times = {mode: self.get(mode, "gpu_ms") for mode in PEERS}
        measured = {mode: time for mode, time in times.items() if time is not None}
        return min(measured, key=measured.get) if measured else None

    def peer_ms(self):
        best = self.best_peer()
        return self.get(best, "gpu_ms") if best else None

    def limit(self):
        """The larger of arithmetic at the rate of a large product and bytes at the rate of a large copy."""
        rate, bandwidth = self.ceilings.get(f"{self.workload.dtype}_flops_per_s"), self.ceilings.get("bytes_per_s")
        if rate is None or bandwidth is None or "work" not in self.records:
            return None
        return max(self.get("work", "flops") / rate, self.get("work", "bytes") / bandwidth) * 1e3

    def plain_error(self):
        """Error of PyTorch as written, which rounds after every operation; torch.compile leaves some of those roundings out."""
        return next((self.error(mode) for mode in ("eager", "graph") if self.error(mode) is not None), None)

    def accurate(self, target):
        """Whether the target is at least as accurate as plain PyTorch; None where that was not measured."""
        ours, plain = self.error(target), self.plain_error()
        return None if ours is None or plain is None else ours <= plain


def number(value, digits=3):
    return "-" if value is None else f"{value:.{digits}f}"


def ratio(a, b, digits=2):
    return "-" if a is None or b is None else f"{a / b:.{digits}f}"


def percent(a, b):
    return "-" if a is None or b is None else f"{100 * a / b:.0f} %"


def small(value):
    return "-" if value is None else f"{value:.1e}"


def pair(row, system):
    if row.get(system, "failed"):
        return "failed"
    gpu, wall = row.get(system, "gpu_ms"), row.get(system, "wall_ms")
    return "-" if gpu is None else f"{gpu:.3f} / {wall:.3f}"


def verdict(row):
    if row.get("cuda", "failed"):
        return "no"
    ours = row.get("cuda", "gpu_ms")
    if ours is None:
        return "-"
    met = "yes" if ours <= row.workload.bar else "no"
    accurate = row.accurate("cuda")
    if accurate is None:
        return f"{met}, output unchecked"
    return met if accurate else f"{met}, less accurate than plain PyTorch"


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def time_table(rows):
    header = ["workload", "dtype", "eager", "CUDA graph", "compile + graph", "rlx CUDA", "rlx Vulkan", "limit", "of limit",
              "peer / CUDA", "Vulkan / CUDA", "bar", "met"]
    lines = []
    for row in rows:
        ours, limit = row.get("cuda", "gpu_ms"), row.limit()
        lines.append([row.workload.title, row.workload.dtype, *(pair(row, mode) for mode in PEERS),
                      *(pair(row, target) for target in TARGETS), number(limit), percent(limit, ours),
                      ratio(row.peer_ms(), ours), ratio(row.get("vulkan", "gpu_ms"), ours), number(row.workload.bar, 2),
                      verdict(row)])
    return markdown(header, lines)


def error_table(rows):
    header = ["workload", "dtype", "eager", "CUDA graph", "compile + graph", "rlx CUDA", "rlx Vulkan", "largest absolute, CUDA"]
    lines = []
    for row in rows:
        absolute = (row.get("cuda", "error") or {}).get("absolute")
        lines.append([row.workload.title, row.workload.dtype, *(small(row.error(system)) for system in PEERS + TARGETS),
                      small(absolute)])
    return markdown(header, lines)


def arena(row, target):
    entry = (row.get(target, "report") or {}).get("entry")
    if entry is None:
        return "-"
    bound = entry["arena_lower_bound_bytes"]
    return f"{entry['arena_bytes'] / 2**20:.2f} MiB, {entry['arena_bytes'] / bound if bound else 1:.3f}"


def preparation_table(rows):
    header = ["workload", "dtype", "torch.compile s", "rlxc cold / warm s", "load + first output, CUDA ms", "same, Vulkan",
              "process to first output, CUDA s", "same, Vulkan", "steps CUDA / Vulkan", "arena and its ratio to the bound, CUDA", "same, Vulkan", "plan KiB"]
    lines = []
    for row in rows:
        steps = [str(((row.get(target, "report") or {}).get("entry") or {}).get("steps", "-")) for target in TARGETS]
        size = row.get("plan", "plan_bytes")
        compiling = [number(row.get("plan", f"{kind}_s"), 2) for kind in ("cold", "warm")]
        lines.append([row.workload.title, row.workload.dtype, number(row.get("compile", "prepare_s"), 1), " / ".join(compiling),
                      *(number(row.get(target, "load_ms"), 1) for target in TARGETS),
                      *(number(row.get(target, "first_output_s"), 2) for target in TARGETS), " / ".join(steps),
                      *(arena(row, target) for target in TARGETS), "-" if size is None else f"{size / 1024:.0f}"])
    return markdown(header, lines)


def kernel_lines(rows):
    lines = []
    for row in rows:
        for target in TARGETS:
            kernels = row.get(target, "kernels")
            if kernels:
                parts = [f"{name} {k['us']:.0f} us in {k['steps']}" for name, k in kernels.items()]
                lines.append(f"- {row.workload.name}, {target}: " + ", ".join(parts))
    return "\n".join(lines) + "\n"


def failures(records):
    lines = [f"- {workload}, {system}: {record['failed'].splitlines()[-1]}" for (workload, system), record in records.items()
             if "failed" in record]
    return "Failed:\n" + "\n".join(lines) + "\n\n" if lines else ""


def machine_lines(records):
    facts, ceilings = records.get(("machine", "facts"), {}), records.get(("machine", "ceilings"), {})
    device = f"{facts.get('device', '?')} (driver {facts.get('driver', '?')})"
    text = f"# {facts.get('when', '')[:10]}, {device}, PyTorch {facts.get('torch', '?')}\n\n"
    if "bytes_per_s" in ceilings:
        rates = ", ".join(f"{name} {ceilings[f'{name}_flops_per_s'] / 1e12:.1f}" for name in ("f32", "f16", "bf16"))
        measured, copy = ceilings["when"][11:16], ceilings["bytes_per_s"] / 1e12
        text += (f"Ceilings measured through PyTorch at {measured}: copy {copy:.2f} TB/s (read and written), products of "
                 f"8192^3: {rates} TFLOP/s.\n\n")
    commands = {}
    for (workload, _), record in records.items():
        if workload != "machine":
            commands.setdefault(record["command"], []).append(record["when"])
    lines = [f"- `{command}`, {min(times)[:16]} to {max(times)[11:16]}" for command, times in sorted(commands.items())]
    return (text + "Commands, and when they ran; figures of different commands may come from different machines of this kind:\n"
            + "\n".join(lines) + "\n\n")


def table(records):
    rows = [Row(records, workload) for workload in models.WORKLOADS]
    rows = [row for row in rows if row.records]
    return (machine_lines(records)
            + "GPU / wall milliseconds, medians. The bar and the ratios are of GPU times; the limit is the larger of arithmetic and "
            "memory time at the ceilings.\n\n" + time_table(rows)
            + "\nError against the same network in f64 over the same rounded weights and inputs, relative in the Euclidean norm:\n\n"
            + error_table(rows) + "\nPreparation:\n\n" + preparation_table(rows)
            + "\nSteps run one after another, by kernel:\n\n" + kernel_lines(rows) + "\n" + failures(records))
