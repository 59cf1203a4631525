"""Knows JAX; never IPython, traitlets or anywidget."""
