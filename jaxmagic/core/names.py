"""The variables that code sees where it stands: its own first, then those of its module."""

from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any


class Names(Mapping[str, Any]):
    """A live view on a frame's variables."""

    def __init__(self, frame: FrameType) -> None:
        self._frame = frame

    def __getitem__(self, name: str) -> Any:
        local = self._frame.f_locals
        return local[name] if name in local else self._frame.f_globals[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._frame.f_globals, **self._frame.f_locals})

    def __len__(self) -> int:
        return len(set(self))


def names_of(frame: FrameType) -> Mapping[str, Any]:
    """What a frame sees; of a module, its own dictionary."""
    return frame.f_globals if frame.f_code.co_name == "<module>" else Names(frame)
