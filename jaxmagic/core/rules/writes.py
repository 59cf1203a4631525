"""What a statement changes without binding it: by a method, `setattr`, a function of NumPy's, or a patch."""

import ast

from jaxmagic.core.source.nodes import name_called

MUTATORS = ("append", "extend", "add", "insert", "update", "pop", "remove", "clear", "appendleft", "setdefault")
MUTATORS += ("fill", "put")
"""Methods that change their object."""

_FILLING = ("copyto", "place", "putmask", "fill_diagonal", "shuffle")
"""Functions that write to their first argument."""


def changed(statement: ast.AST) -> ast.expr | None:
    """`layers` of `layers.append(w)`, `cfg.rate` of `setattr(cfg, "rate", 1)`, `mask` of `np.copyto(mask, 0)`."""
    match statement:
        case ast.Expr(value=ast.Call() as call):
            return _changed_by(call)
        case ast.With(items=[ast.withitem(context_expr=ast.Call(func=ast.Attribute(attr="object")) as call)]):
            return _attribute(call)
    return None


def mutated(statement: ast.AST) -> ast.expr | None:
    """What a method that changes its object is called on, as a statement: `layers` of `layers.append(w)`."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=holder, attr=method))) if method in MUTATORS:
            return holder if isinstance(holder, ast.Name | ast.Attribute | ast.Subscript) else None
    return None


def _changed_by(call: ast.Call) -> ast.expr | None:
    function, first = name_called(call), call.args[0] if call.args else None
    out = next((word.value for word in call.keywords if word.arg == "out"), None)
    if out is not None:
        return out
    if function == "setattr":
        return _attribute(call)
    if function in _FILLING and isinstance(call.func, ast.Attribute):
        return first
    return mutated(ast.Expr(call))


def _attribute(call: ast.Call) -> ast.expr | None:
    """`cfg.rate` of `setattr(cfg, "rate", 1)`, and of `mock.patch.object(cfg, "rate", 1)`."""
    match call.args:
        case [owner, ast.Constant(value=str(name)), *_]:
            return ast.Attribute(owner, name)
    return None
