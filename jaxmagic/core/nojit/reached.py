"""Whether the functions asked for were met, and where they ran if not in Python."""

import difflib
from collections.abc import Iterable, Mapping
from types import CodeType, FrameType
from typing import Any

from jaxmagic.core import jax_internals
from jaxmagic.core.lines.transforms import transforms
from jaxmagic.core.nojit.matching import Targets
from jaxmagic.core.nojit.remaining import ABSTRACT


class Reached:
    """Listens to frames that begin."""

    def __init__(self, targets: Targets, namespace: Mapping[str, Any]) -> None:
        self._targets = targets
        self._namespace = namespace
        self._in_python: set[str] = set()
        self._traced: dict[str, tuple[str, ...]] = {}
        self._met: set[str] = set()

    def entered(self, frame: FrameType) -> bool:
        self._met.add(frame.f_code.co_name)
        label = self._targets.label_of(frame.f_code)
        if label is not None and jax_internals.is_staging():
            self._traced[label] = (ABSTRACT,) if _only_for_its_program(frame) else transforms()
        elif label is not None:
            self._in_python.add(label)
        return False

    def stepped(self, frame: FrameType, line: int) -> bool:
        return False

    def left(self, frame: FrameType, line: int, value: Any) -> bool:
        return False

    def unreached(self, ran: Iterable[CodeType]) -> tuple[str, ...]:
        """A sentence for each function asked for that never ran in Python.

        Args:
            ran: Codes of jitted functions that did, of libraries as well, whose frames are not watched.
        """
        reached = self._in_python | {self._targets.label_of(code) for code in ran}
        return tuple(self._why(label) for label in self._targets.labels() if label not in reached)

    def _why(self, label: str) -> str:
        if label in self._traced:
            around = " in ".join(self._traced[label])
            name = label.rpartition(".")[2]
            return (
                f"{label} was only traced, in {around}: from there on no Python code of it runs. "
                f"Call it on one real value to step through it, or see its values with `%%jaxtap {name}.*`."
            )
        if label in self._targets.names and self._targets.bound_to(label) is None:
            names = [name for name, value in self._namespace.items() if callable(value) and name[:1] != "_"]
            near = difflib.get_close_matches(label, dict.fromkeys((*names, *sorted(self._met))), 3, 0.5)
            return f"{label}: no function of that name was met; {_likely(near)}"
        return (
            f"{label} was not called: nothing in this cell led to it, or only a program that was traced or compiled "
            "ahead of time, of which no Python code runs any more."
        )


def _only_for_its_program(frame: FrameType | None) -> bool:
    while frame is not None:
        if jax_internals.asks_for_program(frame):
            return True
        frame = frame.f_back
    return False


def _likely(names: list[str]) -> str:
    if not names:
        return "use the name of the user's variable, or the one after `def`: `f`, `Model.attend`, `module.f`."
    return f"did you mean {' or '.join(names)}?"
