#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rlx.torch on the devices that are there, and PyTorch's tensors in and out: on a CUDA device with no copy at all.

    python3 tests/python/torch_test.py BUILD_DIR

Exits 77, which counts as skipped, where the package rlx, PyTorch or a device is missing.
"""
import pathlib
import sys
import unittest

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build").resolve() / "python"))
try:
    import torch
    import rlx
    import rlx.torch
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(SKIPPED)
if not rlx.devices():
    print("SKIPPED: no device; mesa-vulkan-drivers is one")
    sys.exit(SKIPPED)

HAS_CUDA = torch.cuda.is_available() and any(device.id == "cuda:0" for device in rlx.devices())
NO_COPIES = {"to_device": 0, "from_device": 0, "on_host": 0}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x, scale=None):
        hidden = torch.relu(self.first(x))
        y = self.second(hidden)
        return {"y": y if scale is None else y * scale, "hidden": hidden}


def compiled(*example, module=None, **options):
    return rlx.torch.compile(module or Net(), example, cache=False, **options)


class Modules(unittest.TestCase):
    def test_dynamic_sizes_and_structure(self):
        module = Net()
        fast = compiled(torch.randn(4, 8), module=module, dynamic={"x": {0: ("batch", 1, 16)}})
        with torch.no_grad():
            for batch in (4, 1, 16):
                x = torch.randn(batch, 8)
                wanted, got = module(x), fast(x)
                self.assertEqual(list(got), list(wanted))
                for name in wanted:
                    torch.testing.assert_close(got[name], wanted[name])

    def test_arguments_by_place_and_name(self):
        module, x = Net(), torch.randn(2, 8)
        fast = compiled(x, torch.tensor(2.0), module=module)
        with torch.no_grad():
            torch.testing.assert_close(fast(scale=torch.tensor(3.0), x=x)["y"], module(x, torch.tensor(3.0))["y"])
        with self.assertRaisesRegex(TypeError, "wanted 2: x, scale"):
            fast(x)
        with self.assertRaisesRegex(TypeError, "got f64"):
            fast(x.double(), torch.tensor(3.0))

    def test_types_that_numpy_lacks(self):
        fast = compiled(torch.randn(2, 8, dtype=torch.bfloat16), module=torch.nn.Linear(8, 8).bfloat16())
        self.assertEqual(fast(torch.randn(2, 8, dtype=torch.bfloat16)).dtype, torch.bfloat16)

    def test_host_tensors_are_copied_once(self):
        fast = compiled(torch.randn(4, 8))
        fast(torch.randn(4, 8))
        self.assertEqual(fast.session.copies, {"to_device": 1, "from_device": 2, "on_host": 0})
        fast(torch.randn(8, 4).T)
        self.assertEqual(fast.session.copies["on_host"], 1)
        fast(torch.nn.Parameter(torch.randn(4, 8)))

    def test_what_has_no_counterpart_is_named(self):
        class Eigenvalues(torch.nn.Module):
            def forward(self, x):
                return torch.linalg.eigvals(x)

        with self.assertRaisesRegex(rlx.CompileError, "linalg_eig"):
            compiled(torch.randn(3, 3), module=Eigenvalues())


@unittest.skipUnless(HAS_CUDA, "no CUDA device")
class Cuda(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.module = Net().cuda()
        self.x = torch.randn(4, 8, device="cuda")
        self.fast = compiled(self.x, module=self.module, dynamic={"x": {0: ("batch", 1, 16)}})

    def test_no_copy_in_or_out(self):
        for batch in (4, 9, 4):
            x = torch.randn(batch, 8, device="cuda")
            got = self.fast(x)
            self.assertTrue(got["y"].is_cuda)
            self.assertEqual(self.fast.session.copies, NO_COPIES)
            from_host = self.fast.plan.session("cuda").run({"x": x.cpu().numpy()})
            for name in got:
                self.assertTrue(torch.equal(got[name].cpu(), torch.from_numpy(from_host[name])))

    def test_on_the_caller_s_stream(self):
        stream = torch.cuda.Stream()
        session = self.fast.plan.session("cuda", stream=stream, queue_depth=2)
        y = {"y": torch.empty(4, 4, device="cuda"), "hidden": torch.empty(4, 16, device="cuda")}
        with torch.cuda.stream(stream):
            x = torch.zeros(4, 8, device="cuda")
            for _ in range(100):
                x = x + self.x / 100  # under way when the run is submitted
            session.submit({"x": x}, out=y)
            doubled = y["hidden"] * 2
            session.wait()
        stream.synchronize()
        torch.testing.assert_close(doubled, 2 * self.fast(x)["hidden"])
        self.assertEqual(session.copies, NO_COPIES)

    def test_tensors_of_another_place_are_refused(self):
        if any(device.id.startswith("vulkan") for device in rlx.devices()):
            plan = compiled(self.x.cpu()).plan
            with self.assertRaisesRegex(ValueError, "lies on cuda:0, the session runs on vulkan"):
                plan.session("vulkan").run({"x": self.x})
        with self.assertRaisesRegex(ValueError, "aligned|multiple"):
            self.fast(torch.randn(4 * 8 + 1, device="cuda")[1:].reshape(4, 8))


if __name__ == "__main__":
    unittest.main()
