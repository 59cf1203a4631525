"""Functions that store a value outside, rewritten to return it."""

import ast
import copy

from jaxmagic.core.rules.rewrite import text
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import path_to
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Span

Fix = tuple[str, Span | None]


def fix(file: str, function: ast.FunctionDef | ast.Lambda, store: ast.AST, by: str) -> Fix:
    """The function with its value returned beside the result; empty where that can't be done by syntax alone.

    Args:
        file: Where the function stands.
        function: The traced function.
        store: The statement (or call) in it that stores the value.
        by: The transformation: what scan's body stores becomes the output of each step.
    """
    tree = source.tree(file)
    if tree is None or not isinstance(function, ast.FunctionDef):
        return "", None
    if by == "scan":
        return _as_scan_output(file, tree, function, store)
    return _returned(file, function, store, by)


def _returned(file: str, function: ast.FunctionDef, store: ast.AST, by: str) -> Fix:
    value = _value(store)
    body = [copy.deepcopy(statement) for statement in function.body if not _is(statement, store, keep_assigned=True)]
    shared = [name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names]
    body = [statement for statement in body if not isinstance(statement, ast.Global)]
    if value is None or not body or not isinstance(body[-1], ast.Return) or body[-1].value is None:
        return "", None
    result = body[-1].value
    body[-1] = ast.Return(ast.Tuple([result, value]))
    arguments = copy.deepcopy(function.args)
    arguments.args = [*arguments.args, *(ast.arg(name) for name in shared)]
    changed = copy.copy(function)
    changed.args, changed.body, changed.decorator_list = arguments, body, copy.deepcopy(function.decorator_list)
    return f"{text(changed)}\n# {_call(changed, shared, by)}", _with_decorators(file, function)


def _call(function: ast.FunctionDef, shared: list[str], by: str) -> str:
    """How to call it now."""
    given = ", ".join(arg.arg for arg in function.args.args)
    extra = ", ".join(shared) or "extra"
    if by == "grad":
        return f"call it as: gradient, {extra} = jax.grad({function.name}, has_aux=True)({given})"
    if by == "vmap":
        return f"call it as: result, {extra} = jax.vmap({function.name})({given})"
    return f"call it as: result, {extra} = {function.name}({given})"


def _value(store: ast.AST) -> ast.expr | None:
    """What is stored: the appended value, or the global's own name."""
    match store:
        case ast.Call(args=[*_, value]):
            return copy.deepcopy(value) if not isinstance(value, ast.Lambda) else None
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), *_])] | [ast.Name(id=name)]):
            return ast.Name(name, ast.Load())
        case ast.Assign(value=value) if not isinstance(value, ast.Lambda):
            return copy.deepcopy(value)
    return None


def _is(statement: ast.stmt, store: ast.AST, *, keep_assigned: bool) -> bool:
    """Whether it is the storing statement; an assignment to a name stays, as the name goes on as a local."""
    if (
        keep_assigned
        and isinstance(store, ast.Assign)
        and not isinstance(store.targets[0], ast.Subscript | ast.Attribute)
    ):
        return False
    return statement is store or (isinstance(statement, ast.Expr) and statement.value is store)


def _with_decorators(file: str, function: ast.FunctionDef) -> Span:
    span = span_of(file, function)
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return Span(file, first, function.col_offset, span.end_line, span.end_column)


def _as_scan_output(file: str, tree: ast.AST, body: ast.FunctionDef, store: ast.AST) -> Fix:
    """`items.append(c)` in scan's body becomes the second part of its return, and `items` scan's second result."""
    outer = next((node for node in path_to(tree, body)[1:] if isinstance(node, ast.FunctionDef)), None)
    match store:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=holder), attr="append"), args=[value]) if outer is not None:
            changed = _Collector(holder, body.name, store, value).visit(copy.deepcopy(outer))
            return text(ast.fix_missing_locations(changed)), _with_decorators(file, outer)
    return "", None


class _Collector(ast.NodeTransformer):
    """Rewrites the function around a scan, see `_as_scan_output`."""

    def __init__(self, holder: str, body: str, store: ast.AST, value: ast.expr) -> None:
        self.holder, self.body, self.value = holder, body, value
        self.stored = ast.dump(store)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        if node.name == self.body:
            node.body = [self._with_output(s) for s in node.body if not self._is_store(s)]
        return node

    def _is_store(self, statement: ast.stmt) -> bool:
        return isinstance(statement, ast.Expr) and ast.dump(statement.value) == self.stored

    def _with_output(self, statement: ast.stmt) -> ast.stmt:
        match statement:
            case ast.Return(value=ast.Tuple(elts=[carry, ast.Constant(value=None)])):
                return ast.Return(ast.Tuple([carry, copy.deepcopy(self.value)]))
        return statement

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        self.generic_visit(node)
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List(elts=[])) if name == self.holder:
                return None
            case ast.Assign(
                targets=[ast.Tuple(elts=[carry, ast.Name()])], value=ast.Call(args=[ast.Name(id=name), *_])
            ):
                if name == self.body:
                    node.targets = [ast.Tuple([carry, ast.Name(self.holder, ast.Store())], ast.Store())]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`jnp.stack(items)`, `jnp.array(items)`: scan has stacked them."""
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Attribute(attr="stack" | "array" | "asarray"), args=[ast.Name(id=name)]):
                if name == self.holder:
                    return node.args[0]
        return node
