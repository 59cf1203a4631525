"""What libraries draw from a key that they are given: layers of Equinox's, distributions and inference of NumPyro's."""

import ast

from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.ran import Ran, dotted
from jaxmagic.core.rules.scopes import assigned, attribute_values, class_of

_DRAWING_LAYERS = ("Dropout", "MultiheadAttention")
_INFERENCE = ("MCMC", "SVI")
_INFERENCE_METHODS = ("run", "warmup", "init")


def library_draw(observed: Observed, piece: Ran, node: ast.Call) -> tuple[ast.expr, str] | None:
    """The key that a call draws from, and what for; `inference` and `prediction` are done again to be compared."""
    word = next((each.value for each in node.keywords if each.arg in ("key", "rng_key")), None)
    if word is None and (not node.args or not isinstance(node.func, ast.Attribute | ast.Name | ast.Call)):
        return None
    first = node.args[0] if node.args else word
    match node.func:
        case ast.Attribute(value=owner, attr=method) if method in _INFERENCE_METHODS or method == "sample":
            made = made_by(observed, piece, owner)
            if method == "sample":
                known, kind = made.startswith("numpyro.distributions."), "draw"
            else:
                known, kind = made.startswith("numpyro.") and made.rpartition(".")[2] in _INFERENCE, "inference"
            return (word or first, kind) if known and first is not None else None
    made = made_by(observed, piece, node.func)
    if made.startswith("numpyro.") and made.endswith(".Predictive") and first is not None:
        return word or first, "prediction"
    if word is not None and made.startswith("equinox.nn.") and made.rpartition(".")[2] in _DRAWING_LAYERS:
        return word, "draw"
    return None


def made_by(observed: Observed, piece: Ran, node: ast.expr) -> str:
    """The full name of the class that an object was made by, here or as the namespace holds it."""
    match node:
        case ast.Call(func=function):
            return dotted(observed, piece, function)
        case ast.Name(id=name) if name in piece.local:
            made = [each for each in assigned(piece, name) if isinstance(each, ast.Call)]
            return dotted(observed, piece, made[0].func) if len(made) == 1 else ""
        case ast.Name(id=name) if name in observed.namespace:
            kind = type(observed.namespace[name])
            return f"{kind.__module__}.{kind.__qualname__}"
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if (owner := class_of(piece)) is not None:
            home = Ran(piece.file, ast.Module([], []), "<module>", ())
            made = [each for each in attribute_values(owner, name) if isinstance(each, ast.Call)]
            return dotted(observed, home, made[0].func) if len(made) == 1 else ""
    return ""
