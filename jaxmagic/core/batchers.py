"""Replaces JAX's rules for batching primitives for a while: any number of users, JAX's own back after the last."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from jax.interpreters import batching

Rule = Callable[..., Any]
"""Called as `rule(original, primitive, axis, operands, axes, **parameters)`."""

_users: dict[Rule, int] = {}
_originals: dict[Rule, dict[Any, Rule]] = {}


@contextmanager
def batched_by(rule: Rule, primitives: Sequence[Any]) -> Iterator[None]:
    """Has `rule` batch these primitives while it lasts; the first user of a rule puts it there, the last takes it off.

    Args:
        rule: Is given the rule that was there before it, and the primitive.
        primitives: Always the same for one rule.
    """
    rules = batching.fancy_primitive_batchers
    _users[rule] = _users.get(rule, 0) + 1
    if _users[rule] == 1:
        _originals[rule] = {each: rules[each] for each in primitives}
        rules.update({each: partial(rule, before, each) for each, before in _originals[rule].items()})
    try:
        yield
    finally:
        _users[rule] -= 1
        if not _users[rule]:
            rules.update(_originals.pop(rule))
