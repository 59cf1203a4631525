"""Builds the front end on the way into a wheel or sdist; an sdist already carries it and needs no Node.js."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MISSING = """jaxmagic: npm was not found on PATH.
Building from a checkout compiles the panel with Node.js 20 or newer and npm: install them, or install a released
wheel or sdist, which carry the compiled panel. JAXMAGIC_SKIP_JS=1 leaves the panel as it is, or out."""


class FrontEnd(BuildHookInterface):
    """Runs `npm ci` and `npm run build`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if (root / "PKG-INFO").exists():
            return
        if os.environ.get("JAXMAGIC_SKIP_JS") != "1":
            self._build(root)
        # hatchling refuses shared data whose folder is absent
        (root / "jaxmagic" / "labextension").mkdir(exist_ok=True)

    def _build(self, root: Path) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit(MISSING)
        for arguments in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
            subprocess.run([npm, *arguments], cwd=root, check=True)
