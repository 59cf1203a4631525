"""Shapes of JAX arrays in code that ran: from what its lines were seen to hold, and from the namespace."""

import ast
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jax

from jaxmagic.core.failures.operands import Scope, aval_of, is_tracer
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.ran import Ran
from jaxmagic.records import Aval, Hint


class Shapes:
    """What the names and expressions of one piece of code had for shapes and dtypes."""

    def __init__(self, observed: Observed, piece: Ran) -> None:
        self._namespace = observed.namespace
        self._piece = piece
        self._all = observed.hints

    @cached_property
    def _hints(self) -> list[Hint]:
        wanted = self._piece.name, self._piece.file
        return [hint for hint in self._all if (hint.function, hint.span.file) == wanted]

    def aval(self, node: ast.expr) -> Aval | None:
        """Of an expression of arrays, NumPy's included."""
        return aval_of(self.value(node))

    def value(self, node: ast.expr) -> Any:
        """An array, or its shape and dtype; None where it is something else."""
        names = names_before(self._hints, node.lineno)
        if isinstance(node, ast.Attribute) and (dotted := self._piece.text(node)) in names:
            return names[dotted]
        return Scope(names, self._namespace).get(node)

    def sizes(self, node: ast.expr) -> tuple[int, ...] | None:
        """The shape of an array of JAX's; None for one of NumPy's, and where it can't be told."""
        aval = self.aval(node) if self.of_jax(node) else None
        known = aval is not None and all(isinstance(size, int) for size in aval.shape)
        return tuple(int(size) for size in aval.shape) if aval is not None and known else None

    def is_settled(self, node: ast.expr) -> bool:
        """Whether a variable had one shape in all calls."""
        name = self._piece.text(node)
        return len({leaf.aval.shape for hint in self._hints if hint.name == name for leaf in hint.leaves}) <= 1

    def of_jax(self, node: ast.expr) -> bool:
        """Whether an array is JAX's: a variable by what it held, an expression by the variables in it."""
        if isinstance(node, ast.Name):
            kinds = {leaf.kind for hint in self._hints if hint.name == node.id for leaf in hint.leaves}
            value = self._namespace.get(node.id)
            outside = node.id not in self._piece.local and (isinstance(value, jax.Array) or is_tracer(value))
            return "numpy" not in kinds and (bool(kinds) or outside)
        if isinstance(node, ast.Attribute):
            dotted = self._piece.text(node)
            return any(hint.name == dotted and hint.leaves[0].kind != "numpy" for hint in self._hints if hint.leaves)
        return isinstance(self.value(node), jax.ShapeDtypeStruct) and any(
            self.of_jax(child) for child in ast.walk(node) if isinstance(child, ast.Name)
        )


def names_before(hints: list[Hint], line: int) -> Mapping[str, Any]:
    """What the line record knows of each name above a line, as shapes and dtypes."""
    names: dict[str, Any] = {}
    for hint in sorted(hints, key=lambda hint: hint.span.line):
        whole = len(hint.leaves) == 1 and not hint.leaves[0].path and not hint.hidden
        if hint.span.line < line or hint.name not in names:
            names[hint.name] = _struct(hint.leaves[0].aval) if whole else _Hidden()
    return names


class _Hidden:
    """Stands for a value that is no single array."""


def _struct(aval: Aval) -> Any:
    known = all(isinstance(size, int) for size in aval.shape) and not aval.dtype.startswith("key")
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak) if known else _Hidden()  # pyright: ignore[reportArgumentType]
