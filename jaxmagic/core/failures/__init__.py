"""Exceptions explained: the expression, its operands, where they came from."""
