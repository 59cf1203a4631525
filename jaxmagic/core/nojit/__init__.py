"""Jit off: everywhere, for some functions, or for all but some; and what that showed."""
