"""The arrays in a value, each in a few characters: the shape is never what is cut."""

import re
from collections.abc import Sequence

from jaxmagic.outline.characters import short
from jaxmagic.records import Leaf

NAME = 60
"""Characters of a name that are worth showing."""
PATH = 20
"""Characters of a path into a pytree; its end says most."""

_STEP = re.compile(r"\.[^.\[]+|\[[^\]]*\]|[^.\[]+|.")


def leaf_pieces(leaves: Sequence[Leaf], hidden: int) -> tuple[str, ...]:
    """One piece an array: `f32[3,4]`, or `['w1'] f32[3,4]` for a leaf of a pytree."""
    pieces = [f"{_path(leaf.path)} {short(str(leaf), 2 * NAME)}".strip() for leaf in leaves]
    return (*pieces, *([f"… {hidden:,} more"] if hidden else [])) or ("no arrays",)


def cut(pieces: Sequence[str], most: int) -> list[str]:
    """The first pieces, and how many there are beyond; never for the sake of a single one."""
    if len(pieces) <= most + 1:
        return list(pieces)
    beyond = pieces[-1].removeprefix("… ").removesuffix(" more").replace(",", "")
    rest = len(pieces) - most + (int(beyond) - 1 if beyond.isdecimal() else 0)
    return [*pieces[:most], f"… {rest:,} more"]


def _path(path: str) -> str:
    """The path, without its first steps where it is long."""
    if len(path) <= PATH:
        return path
    kept = ""
    for step in reversed(_STEP.findall(path[-4 * PATH :])):
        if len(step) + len(kept) >= PATH:
            break
        kept = step + kept
    return f"…{kept or path[1 - PATH :]}"
