"""The pages of the rules are what `docs/rules.py` writes; each example shows its rule."""

import subprocess
import sys
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(jax.__version_info__[:2] != (0, 10), reason="the pages are written with the default JAX")
def test_pages_are_up_to_date():
    run = subprocess.run(
        [sys.executable, ROOT / "docs" / "rules.py", "--check"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert run.returncode == 0, run.stderr
