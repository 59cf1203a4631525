"""What a call in the user's code calls: a jitted function, a function of JAX's, or one of the user's own."""

import ast

import jax

from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.source.syntax import definition

JITTED = type(jax.jit(abs))


def is_jitted(observed: Observed, function: ast.expr) -> bool:
    """Whether a name of the notebook is a function made by `jax.jit`."""
    return isinstance(function, ast.Name) and type(observed.namespace.get(function.id)) is JITTED


def own_function(observed: Observed, piece: Ran, function: ast.expr) -> Ran | None:
    """The user's function that an expression names: by its value, in the same file, or a method by its name."""
    match function:
        case ast.Lambda():
            return Ran(piece.file, function, "<lambda>", ())
        case ast.Name(id=name):
            code = getattr(observed.namespace.get(name), "__code__", None)
            node = definition(code) if code is not None else None
            if isinstance(node, ast.FunctionDef | ast.Lambda) and code is not None:
                return Ran(code.co_filename, node, name, ())
            return next((each for each in ran(observed) if each.name.rpartition(".")[2] == name), None) or _nested(
                piece, name
            )
        case ast.Attribute(attr=name) if not dotted(observed, piece, function):
            return next((each for each in ran(observed) if each.name.endswith(f".{name}")), None)
    return None


def _nested(piece: Ran, name: str) -> Ran | None:
    """A function that is defined inside of the piece, and did not run under our eyes."""
    for node in ast.walk(piece.node):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return Ran(piece.file, node, name, ())
    return None
