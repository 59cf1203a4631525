"""Whose code is it: the user's, or that of Python, of an installed package, or ours."""

import linecache
import os
import sys
import sysconfig
from pathlib import Path

from jaxmagic.core.lines.attributes import attribute, module_of

OURS = str(Path(os.path.abspath(__file__)).parents[2]) + os.sep
_PYTHON = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_INSTALLED = ("site-packages", "dist-packages")
_CELLS = ("<ipython-input", "<timed ", "<stdin>")
_GENERATED = ("<string>", "<frozen ", "<attrs ", "<decorator-gen", "<__array_function__", "<template>", "<unknown>")
"""Names under which libraries compile code of their own (dataclasses and named tuples use `<string>`)."""


class Policy:
    """Decides by file name; the answer for each is kept.

    Args:
        modules: Installed packages or modules to treat as the user's own, by import name.
        files: Further `co_filename`s that are the user's: a program given on the command line is `<string>`.
    """

    def __init__(self, modules: tuple[str, ...] = (), files: tuple[str, ...] = ()) -> None:
        self._paths = tuple(module.replace(".", os.sep) for module in modules)
        self._known: dict[str, bool] = dict.fromkeys(files, True)

    def is_user(self, filename: str) -> bool:
        """Whether code with this `co_filename` is the user's: a cell, a script, a module that is not installed."""
        known = self._known.get(filename)
        if known is None:
            known = self._known[filename] = self._decide(filename)
        return known

    def owns(self, cls: type) -> bool:
        """Whether a class is the user's own, by the file of the module that defined it."""
        module = module_of(cls)
        if module == "__main__":
            return True
        file = attribute(sys.modules.get(module), "__file__")  # a module may compute its attributes on demand
        return isinstance(file, str) and self.is_user(file)

    def _decide(self, filename: str) -> bool:
        if filename.startswith("<"):
            # Any other made-up name is the user's if someone took care to make its text known.
            return filename.startswith(_CELLS) or (filename in linecache.cache and not filename.startswith(_GENERATED))
        if filename.endswith(".pyx"):  # as NumPy's are called, without a folder
            return False
        for place in _INSTALLED:
            _, found, inside = filename.rpartition(os.sep + place + os.sep)
            if found:
                return any(inside == path + ".py" or inside.startswith(path + os.sep) for path in self._paths)
        return not filename.startswith((OURS, *_PYTHON))
