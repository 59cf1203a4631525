"""Functions that store a value outside while they are traced, rewritten to return it and store it after the call."""

import ast
from collections.abc import Collection

from jaxmagic.core.rules.rewrite import Edit, call, copied, indented, merged, replaced, taking, text, with_decorators
from jaxmagic.core.rules.stores import Store, spelled_jit, stores
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import is_read_first, loaded, name_called, own_nodes, path_to, stored
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Span

Fix = tuple[str, Span | None]

_NONE: Fix = ("", None)


def fix(store: Store, files: Collection[str] = ()) -> Fix:
    """The function with what it stores returned, and stored where it is called; empty where syntax alone can't tell.

    A jitted function becomes two: the traced one, and one of the old name that calls it and stores. The calls of one
    that is differentiated or mapped are changed beside it, where they stand in the same file. Otherwise the host
    stores the value when the program runs.

    Args:
        store: The statement.
        files: Others of the user's, where the function may be called too.
    """
    function, tree = store.function, source.tree(store.file)
    if tree is None or not isinstance(function, ast.FunctionDef):
        return _NONE
    together = [each for each in stores(store.file) if each.function is function and not each.constant]
    if any(spelled_jit(decorator) for decorator in function.decorator_list):
        return _wrapped(store.file, function, together)
    if (collected := _as_scan_output(store.file, tree, function, store.statement))[0]:
        return collected
    elsewhere = any(_reads(file, function.name) for file in files if file != store.file)
    changed = _NONE if elsewhere else _at_calls(store.file, tree, function, together)
    return changed if changed[0] else _when_it_runs(store, tree)


def _reads(file: str, name: str) -> bool:
    """Whether a file reads a name that it does not make itself."""
    tree = source.tree(file)
    if tree is None or name not in loaded(tree):
        return False
    made = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return name not in made | set(stored(tree))


# ---------------------------------------------------------------------------------- the traced function


def _wrapped(file: str, function: ast.FunctionDef, found: list[Store]) -> Fix:
    """`traced_f`, which returns what is stored, and `f`, which stores it."""
    traced = _returning(function, found)
    if traced is None:
        return _NONE
    inner, names, kept = traced
    inner.name = f"traced_{function.name}"
    arguments = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    method = arguments[:1] == ["self"]
    positional = [arg.arg for arg in (*inner.args.posonlyargs, *inner.args.args)][method:]
    given = ", ".join([*positional, *(f"{arg.arg}={arg.arg}" for arg in inner.args.kwonlyargs)])
    called = f"{'self.' if method else ''}{inner.name}({given})"
    result = "result" if "result" not in arguments else "returned"
    lines = [f"global {', '.join(shared)}"] if (shared := _shared(function)) else []
    lines.append(f"{', '.join([result, *names])} = {called}" if names else f"{result} = {called}")
    lines += [*kept, f"return {result}"]
    outer = copied(function)
    outer.decorator_list, outer.body = [], [ast.Pass()]
    head = text(outer).rpartition("\n")[0] or text(outer)
    body = "\n".join(lines)
    return f"{text(inner)}\n\n{head}\n{indented(body)}", with_decorators(file, function)


def _returning(function: ast.FunctionDef, found: list[Store]) -> tuple[ast.FunctionDef, list[str], list[str]] | None:
    """The function with the stored values beside its result, their names, and the statements that store them.

    Statements that only keep a closure over arguments go outside as they are.
    """
    body, names, kept, values = list(function.body), [], [], []
    if not body or not isinstance(body[-1], ast.Return) or body[-1].value is None or _returns(function) > 1:
        return None
    if (
        function.args.vararg
        or function.args.kwarg
        or any(isinstance(node, ast.Nonlocal) for node in own_nodes(function))
    ):
        return None
    result = body[-1].value
    for store in found:
        position = next((at for at, statement in enumerate(body) if _is(statement, store.statement)), None)
        if position is None:
            return None
        if isinstance(store.value, ast.Lambda):
            if loaded(store.value.body) & set(stored(*function.body)):
                return None
            kept.append(text(copied(store.statement)))
            del body[position]
            continue
        if store.target_name:  # a global: the name goes on as a local of the traced function
            names.append(store.target_name)
            values.append(ast.Name(store.target_name))
            continue
        if (
            store.value is None
            or store.default
            or _has_text(store.value)
            or store.holder in loaded(ast.Module(body[position + 1 :], [])) - {"self"}
        ):
            return None
        name = store.value.id if isinstance(store.value, ast.Name) else "stored"
        if name in names or name == "result":
            name = f"{name}_{len(names)}"
        names.append(name)
        values.append(store.value)
        kept.append(text(replaced(store.statement, store.value, ast.Name(name))))
        del body[position]
    body = [statement for statement in body if not isinstance(statement, ast.Global)]
    body[-1] = ast.Return(ast.Tuple([result, *values])) if values else ast.Return(result)
    changed = copied(function)
    changed.body = copied(body)
    read = [name for name in _shared(function) if is_read_first(name, function.body)]
    changed.args.args = [*changed.args.args, *(ast.arg(name) for name in read)]
    return changed, names, kept


def _has_text(value: ast.expr) -> bool:
    """Whether strings are in what is stored: a traced function can't return them."""
    inside = [value]
    if isinstance(value, ast.Tuple | ast.List):
        inside = value.elts
    elif isinstance(value, ast.Dict):
        inside = value.values
    return any(isinstance(part, ast.JoinedStr) or isinstance(getattr(part, "value", None), str) for part in inside)


def _returns(function: ast.FunctionDef) -> int:
    return sum(isinstance(node, ast.Return) for node in own_nodes(function))


def _shared(function: ast.FunctionDef) -> list[str]:
    return [name for node in own_nodes(function) if isinstance(node, ast.Global) for name in node.names]


def _is(statement: ast.stmt, store: ast.AST) -> bool:
    return statement is store or (isinstance(statement, ast.Expr) and statement.value is store)


def _when_it_runs(store: Store, tree: ast.Module) -> Fix:
    """`seen.append(a)` as `jax.debug.callback(seen.append, a)`."""
    node, value = store.statement, store.value
    if value is None or store.default or _has_text(value) or isinstance(value, ast.Lambda):
        return _NONE
    match node:
        case ast.Call(func=function, args=[_], keywords=[]):
            later: ast.expr = function
        case ast.Call():
            later = taking(["stored"], replaced(node, value, ast.Name("stored")))
        case ast.Assign(targets=[ast.Subscript(value=holder, slice=key)]):
            later = taking(["stored"], ast.Call(ast.Attribute(holder, "__setitem__"), [key, ast.Name("stored")], []))
        case ast.Assign(targets=[ast.Attribute(value=holder, attr=name)]):
            later = taking(["stored"], call("setattr", holder, ast.Constant(name), ast.Name("stored")))
        case _:
            return _NONE
    imported = "jax" in {name.asname or name.name for each in ast.walk(tree) for name in _imports(each)}
    shown = text(call("jax.debug.callback", later, value))
    return shown if imported else f"import jax\n{shown}", span_of(store.file, node)


def _imports(node: ast.AST) -> list[ast.alias]:
    return node.names if isinstance(node, ast.Import) else []


# ---------------------------------------------------------------------------------- its calls


def _at_calls(file: str, tree: ast.Module, function: ast.FunctionDef, found: list[Store]) -> Fix:
    """`g = jax.grad(loss)(w)` as `g, a = jax.grad(loss, has_aux=True)(w)`, followed by the store."""
    traced = _returning(function, found)
    if traced is None or _shared(function):
        return _NONE
    inner, names, kept = traced
    calls = [_changed_call(statement, function.name, names, kept) for statement in _calling(tree, function)]
    if not calls or any(changed is None for changed in calls) or not names:
        return _NONE
    edits: list[Edit] = [(with_decorators(file, function), text(inner))]
    edits += [(span_of(file, statement), code) for statement, code in filter(None, calls)]
    return merged(edits)


def _calling(tree: ast.Module, function: ast.FunctionDef) -> list[ast.stmt]:
    """Statements that read the function's name, the function itself left out."""
    inside = set(ast.walk(function))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == function.name and node not in inside:
            found += [each for each in path_to(tree, node) if isinstance(each, ast.stmt)][:1]
    return list(dict.fromkeys(found))


def _changed_call(statement: ast.stmt, name: str, names: list[str], kept: list[str]) -> tuple[ast.stmt, str] | None:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Call(args=[ast.Name(id=given), *_]) as made) as called) if given == name:
            target = "_"
        case ast.Assign(
            targets=[target_node], value=ast.Call(func=ast.Call(args=[ast.Name(id=given), *_]) as made) as called
        ) if given == name:
            target = text(target_node)
        case _:
            return None
    transform = name_called(made)
    stored_names = ", ".join(names)
    if transform in ("grad", "jacrev", "jacfwd", "hessian"):
        target = f"{target}, {stored_names if len(names) == 1 else f'({stored_names})'}"
    elif transform == "value_and_grad" and "," in target:
        loss, _, gradient = target.strip("()").partition(",")
        target = f"({loss}, {stored_names if len(names) == 1 else f'({stored_names})'}), {gradient.strip()}"
    elif transform == "vmap":
        target = f"{target}, {stored_names}"
    else:
        return None
    if transform != "vmap":
        made = ast.Call(made.func, made.args, [*made.keywords, ast.keyword("has_aux", ast.Constant(True))])
    changed = ast.Call(made, called.args, called.keywords)
    return statement, "\n".join([f"{target} = {text(changed)}", *kept])


# ---------------------------------------------------------------------------------- bodies of scans


def _as_scan_output(file: str, tree: ast.AST, body: ast.FunctionDef, store: ast.AST) -> Fix:
    """`items.append(c)` in scan's body becomes the second part of its return, and `items` scan's second result."""
    outer = next((node for node in path_to(tree, body)[1:] if isinstance(node, ast.FunctionDef)), None)
    match store:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=holder), attr="append"), args=[value]) if outer is not None:
            collector = _Collector(holder, body.name, store, value)
            changed = collector.visit(copied(outer))
            if collector.done == {"output", "result"}:
                return text(ast.fix_missing_locations(changed)), with_decorators(file, outer)
    return _NONE


class _Collector(ast.NodeTransformer):
    """Rewrites the function around a scan, see `_as_scan_output`."""

    def __init__(self, holder: str, body: str, store: ast.AST, value: ast.expr) -> None:
        self.holder, self.body, self.value = holder, body, value
        self.stored = ast.dump(store)
        self.done: set[str] = set()

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
                self.done.add("output")
                return ast.Return(ast.Tuple([carry, copied(self.value)]))
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
                    self.done.add("result")
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
