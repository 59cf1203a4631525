"""Opens the black box of `jax.jit` from inside a notebook."""

__version__ = "0.1.0"
