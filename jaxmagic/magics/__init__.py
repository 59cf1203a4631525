"""The magics: flags to options, options to a recording, its report to the user. One file per magic."""

from IPython.core.interactiveshell import InteractiveShell

from jaxmagic.magics.base import ReportMagics
from jaxmagic.magics.nojit import NoJitMagics
from jaxmagic.magics.settings import JaxMagic
from jaxmagic.magics.tap import TapMagics
from jaxmagic.magics.trace import TraceMagics

__all__ = ["JaxMagic", "ReportMagics", "all_magics"]


def all_magics(shell: InteractiveShell, settings: JaxMagic) -> tuple[ReportMagics, ...]:
    """One object for each magic, not registered yet."""
    return TraceMagics(shell, settings), NoJitMagics(shell, settings), TapMagics(shell, settings)
