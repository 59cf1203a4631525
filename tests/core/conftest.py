"""Makes the helpers of this folder importable from the folders below it."""

from collections.abc import Iterator

import pytest
from jax._src import pjit


@pytest.fixture(autouse=True, scope="module")
def _few_traces() -> Iterator[None]:
    """Forgets what JAX traced for other modules: each recording goes through all of it, as a session's has it."""
    yield
    pjit._infer_params_cached.cache_clear()
