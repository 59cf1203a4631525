"""The only file that touches `jax._src`: each private piece, where it was checked, what is lost without it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax._src.interpreters.partial_eval as _partial_eval
import jax._src.pjit as _pjit
from jax._src import source_info_util as _source_info_util
from jax._src import traceback_util as _traceback_util


class Piece(NamedTuple):
    """One private attribute of JAX that we read or wrap."""

    owner: Any
    name: str
    lost: str
    """What jaxmagic can't observe where the piece is missing."""
    checked: tuple[str, ...]
    """JAX versions it was seen to work on."""

    @property
    def present(self) -> bool:
        return hasattr(self.owner, self.name)


_ALL = ("0.8.3", "0.10.2", "0.12.0.1")

PIECES = {
    "infer_params": Piece(_pjit, "_infer_params", "calls of jitted functions", _ALL),
    "call_impl": Piece(_pjit, "_pjit_call_impl_python", "executables and their cost", _ALL),
    "resolve_and_lower": Piece(_pjit, "_resolve_and_lower", "StableHLO and compile seconds", _ALL),
    "trace_init": Piece(_partial_eval.DynamicJaxprTrace, "__init__", "whether a call was traced or cached", _ALL),
    "trace_to_jaxpr": Piece(_partial_eval, "trace_to_jaxpr", "loop bodies traced before the cell", _ALL),
    "fast_path": Piece(_pjit, "_get_fastpath_data", "eager operations", _ALL),
    "cache_fun_only": Piece(_pjit, "_cpp_pjit_cache_fun_only", "functions jitted before the cell", _ALL),
    "cache_explicit": Piece(_pjit, "_cpp_pjit_cache_explicit_attributes", "functions jitted before the cell", _ALL),
    "user_frames": Piece(_source_info_util, "user_frames", "source lines of equations", _ALL),
}


def missing() -> dict[str, Piece]:
    """The pieces that this JAX does not have; empty on every version listed in `checked`."""
    return {key: piece for key, piece in PIECES.items() if not piece.present}


@contextmanager
def replaced(key: str, replacement: Any) -> Iterator[Any]:
    """Puts `replacement` in the place of a piece, and the original back on any way out."""
    piece = PIECES[key]
    original = getattr(piece.owner, piece.name)
    setattr(piece.owner, piece.name, replacement)
    try:
        yield original
    finally:
        setattr(piece.owner, piece.name, original)


def forget_dispatch() -> None:
    """Empties JAX's two C++ dispatch caches, so that each jitted function's next call passes through Python once.

    Nothing is traced, lowered or compiled again: the Python caches stay (`jax.clear_caches` ends the same way).
    """
    for key in ("cache_fun_only", "cache_explicit"):
        getattr(PIECES[key].owner, PIECES[key].name).clear()


def exclude_from_tracebacks(file: str) -> None:
    """Keeps a file of ours out of JAX's filtered tracebacks and out of the locations in its programs."""
    _traceback_util.register_exclusion(file)
    _source_info_util.register_exclusion(file)
