# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, by kind. Every error holds the library's sentence and `status`, the number of its rlx_status."""


class Error(Exception):
    """Anything that librlx refuses. The classes below are also ValueError, TypeError and so on, where Python has a word for it."""

    def __init__(self, sentence, status=None):
        super().__init__(sentence)
        self.status = status


class ArgumentError(Error, ValueError):
    """A wrong name, shape, size or value, a closed session, or a tensor of another device."""


class DtypeError(Error, TypeError):
    """An array of another element type than the input or output has, or no array at all."""


class StateError(Error, RuntimeError):
    """A right call at the wrong moment: an input that was never set, a run that is still under way."""


class FileError(Error, OSError):
    """A file that cannot be opened or read."""


class PlanError(Error, ValueError):
    """Bytes that are no plan, an altered one, or one of another version."""


class TrustError(PlanError):
    """A sound plan that the policy refuses: a signature that is missing, wrong or of another key, or code that is in no list."""


class DeviceError(Error, RuntimeError):
    """No such device, or one that lacks what the plan needs; its loss; a refusal by its driver."""


class OutOfMemory(Error, MemoryError):
    """Too little memory on the host or the device, or a memory budget that the plan exceeds."""


class IndexOutOfRange(Error, IndexError):
    """An index in the data lay outside what it indexes (option check_indices). The outputs can be read all the same."""


class AssertionFailed(Error):
    """Something that the model asserts did not hold in a run: a loop reached its bound, or a branch was taken that cannot be at these sizes
    (option check_indices)."""


_CLASSES = {1: ArgumentError, 2: StateError, 3: FileError, 4: PlanError, 5: PlanError, 6: DeviceError, 7: DeviceError, 8: OutOfMemory,
            9: OutOfMemory, 10: DeviceError, 12: DeviceError, 14: IndexOutOfRange, 15: TrustError,
            16: AssertionFailed}


def by_status(status):
    return _CLASSES.get(status, Error)


class Diagnostic:
    """One thing that is wrong with a model.

    severity: "error", "warning" or "note". code: stable, as "bad-axis". file and position: where ("/nodes/17", "line 3"), or "". op and
    node: the operator and the name of the node, or "". message: what, got, wanted. hint: what to do, or "".
    """

    __slots__ = ("severity", "code", "file", "position", "op", "node", "message", "hint", "_text")

    def __init__(self, severity, code, file, position, op, node, message, hint, text):
        self.severity, self.code, self.file, self.position = severity, code, file, position
        self.op, self.node, self.message, self.hint, self._text = op, node, message, hint, text

    def __str__(self):
        return self._text

    def __repr__(self):
        return f"<rlx.Diagnostic {self._text.splitlines()[0]}>"


class CompileError(Error, ValueError):
    """A model that was refused. `diagnostics`: all that was found, warnings too, each with code, file, node and message."""

    def __init__(self, diagnostics):
        self.diagnostics = list(diagnostics)
        super().__init__("\n".join(str(each) for each in self.diagnostics))


class CompileWarning(UserWarning):
    """What the compiler warns of while it makes a plan."""
