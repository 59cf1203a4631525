"""Program texts below the jaxpr as `Listing` records: what is shown, and which source each operation came from."""

from collections.abc import Callable
from typing import Any

from jaxmagic.core.programs.hlo import read_hlo
from jaxmagic.core.programs.stablehlo import read_stablehlo
from jaxmagic.records import Listing


def hlo_listing(text: str, is_user: Callable[[str], bool]) -> Listing:
    """Optimized HLO, linked to the source.

    Args:
        text: `as_text()` of an executable.
        is_user: Whether a file name is the user's code; other frames are left out.

    Returns:
        The listing. Its text is without the tables of frames and the `metadata` of operations, which the links
        replace. A fusion lists the frames of its own metadata, then those of the operations inside, and so
        does a call. Without metadata (a program from an old persistent cache) no operation has frames.
    """
    return read_hlo(text, is_user)


def stablehlo_listing(lowered: Any, is_user: Callable[[str], bool]) -> Listing:
    """StableHLO as JAX handed it to the compiler, linked to the source.

    Args:
        lowered: Something with `as_text(debug_info=True)`, such as `jax.stages.Lowered`, or that text.
        is_user: Whether a file name is the user's code; other frames are left out.

    Returns:
        The listing. Its text is without locations. Operations of a library's function have the frames of the
        calls of it.
    """
    return read_stablehlo(stablehlo_text(lowered), is_user)


def stablehlo_text(lowered: Any) -> str:
    """The text of a lowered computation with its locations; a text is returned as it is."""
    return lowered if isinstance(lowered, str) else lowered.as_text(dialect="stablehlo", debug_info=True)
