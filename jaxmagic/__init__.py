"""Opens the black box of `jax.jit` from inside a notebook. Importing it imports neither JAX nor IPython."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from jaxmagic.api import Recorder, Tap, TapStopped, nojit, rules, tap, trace
    from jaxmagic.records import Report

__version__ = "0.1.0"
__all__ = [
    "Recorder",
    "Report",
    "Tap",
    "TapStopped",
    "load_ipython_extension",
    "nojit",
    "rules",
    "tap",
    "trace",
    "unload_ipython_extension",
]

_HOME = dict.fromkeys(("Recorder", "Tap", "TapStopped", "nojit", "rules", "tap", "trace"), "api") | {
    "Report": "records"
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'jaxmagic' has no attribute {name!r}; it has {', '.join(sorted(_HOME))}")
    return getattr(import_module(f"jaxmagic.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """`%load_ext jaxmagic`: registers the magics in this shell; prints nothing."""
    from jaxmagic.hooks import load

    load(shell)


def unload_ipython_extension(shell: "InteractiveShell") -> None:
    """`%unload_ext jaxmagic`: removes every trace of jaxmagic from this shell."""
    from jaxmagic.hooks import unload

    unload(shell)
