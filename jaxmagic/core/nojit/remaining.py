"""What stayed traced: functions that vmap, grad and the like trace whether there is a jit or not."""

import threading
from types import CodeType, FrameType
from typing import Any, NamedTuple

from jaxmagic.core.lines.transforms import transforms
from jaxmagic.core.source import syntax
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.source.spans import position
from jaxmagic.records import Span, StillTraced

MOST = 100


ABSTRACT = "eval_shape, make_jaxpr or lower"
"""What asks for a function's program or its shapes, and runs nothing."""


_LEFT_ON = ("jit ", "scan body", "while ", "fori_loop ", "cond branch", "switch branch", "remat")
"""Around what is compiled because it leads to no function that is to run in Python."""


class _Key(NamedTuple):
    code: int
    transforms: tuple[str, ...]
    call: Span | None


class Remaining:
    """Listens to frames that begin; only text is kept.

    Args:
        policy: Whose files.
        everywhere: Whether jit is off for all functions; what still builds a program then was only asked for one.
    """

    def __init__(self, policy: Policy, everywhere: bool) -> None:
        self._policy = policy
        self._everywhere = everywhere
        self._under: dict[int, tuple[str, ...]] = {}
        """The transformations under which a frame runs, by its id."""
        self._found: dict[_Key, tuple[CodeType, int]] = {}
        self._lock = threading.Lock()

    def entered(self, frame: FrameType) -> bool:
        now = transforms()
        with self._lock:
            if not now:
                self._under.pop(id(frame), None)
                return False
            self._under[id(frame)] = now
            caller = self._caller(frame)
            before = self._under.get(id(caller), ()) if caller is not None else ()
            added = now[: len(now) - len(before)] if now[len(now) - len(before) :] == before else now
            if not added or (not self._everywhere and any(word.startswith(_LEFT_ON) for word in now)):
                return False  # what is inside of a jit or a loop that was left on is compiled, not left over
            words = tuple(dict.fromkeys(ABSTRACT if _is_jit(word) else word for word in added))
            key = _Key(id(frame.f_code), words, position(caller) if caller is not None else None)
            if key not in self._found and len(self._found) >= MOST:
                return False
            self._found[key] = frame.f_code, self._found.get(key, (None, 0))[1] + 1
            return False

    def stepped(self, frame: FrameType, line: int) -> bool:
        return False

    def left(self, frame: FrameType, line: int, value: Any) -> bool:
        with self._lock:
            self._under.pop(id(frame), None)
        return False

    def traced(self) -> tuple[StillTraced, ...]:
        return tuple(
            StillTraced(code.co_qualname, key.transforms, syntax.definition_span(code), key.call, times)
            for key, (code, times) in self._found.items()
        )

    def _caller(self, frame: FrameType) -> FrameType | None:
        outer = frame.f_back
        while outer is not None and not self._policy.is_user(outer.f_code.co_filename):
            outer = outer.f_back
        return outer


def _is_jit(word: str) -> bool:
    return word.startswith("jit ")
