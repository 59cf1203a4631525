"""Memory: arrays that were donated and are gone, and NumPy views that can't be written."""

import ast
from collections.abc import Iterator

import jax

from jaxmagic.core.failures.operands import is_tracer
from jaxmagic.core.lines.containers import children
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import function_of, made_from
from jaxmagic.core.rules.rewrite import alias, call, expression, text
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import loaded, parts
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence


@on_error("donated-buffer", "an array is used after it was donated to a jitted function")
def donated_buffer(failing: Failing) -> Cause | None:
    """`donate_argnums` lets the program write its result into the argument's memory; the argument is deleted, on
    every backend. Using it again raises, often in another cell, or in the same cell run a second time. Bind the
    result to the same name.

    Sure: the array is deleted. Which call took it is found in the source: one that passes the name where the
    function donates; where none is found, that is said.
    """
    if failing.says(r"buffer that was previously donated in the same call"):
        return _twice(failing)
    match = failing.says(r"Array has been deleted with shape=(\S+?)\.?$")
    if match is None and not failing.says(r"[Bb]uffer has been deleted or donated"):
        return None
    used, path, kind = next(_deleted_in(failing), (None, "", ""))
    kind = f" ({match[1] if match else kind})" if match or kind else ""
    name = failing.text(used) if used is not None else ""
    taken = next(_donations(failing, name), None) if name else None
    shown = (f"`{name}{path}`" if name else "an array") + kind
    if taken is None and (others := list(_donations(failing, ""))) and len(others) == 1:
        return _other_name(others[0], shown, name)
    if taken is None:
        return Cause(
            title=f"{shown} was deleted: donated to a jitted function, or by `.delete()`",
            explanation="A donated argument's memory is given to the result. Bind the result to the same name, or "
            "leave `donate_argnums` out while debugging.",
        )
    file, call, statement = taken
    given = next((text(node) for node in call.args if _same(file, node, name)), name)
    fix = ""
    if isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1:
        fix = _rebound(file, statement.targets[0], call, given)
    return Cause(
        title=f"{shown} was donated to `{source.text_of(span_of(file, call.func))}` and is deleted",
        explanation=f"`{source.text_of(span_of(file, call))}` took its memory for the result. Bind the result to the "
        "same name; in a notebook, running the cell again is enough to meet the deleted array.",
        evidence=(Evidence("donated here", span_of(file, call)),),
        fix=fix,
        replaces=span_of(file, statement),
    )


def _deleted_in(failing: Failing) -> Iterator[tuple[ast.expr, str, str]]:
    """Operands that are or hold a deleted array, where in them, and its type: `float32[3]`."""
    called = failing.node.func if isinstance(failing.node, ast.Call) else None
    for node in [*parts(failing.node), *([called] if called is not None else [])]:
        yield from ((node, *found) for found in _deleted(failing.value(node)))


def _deleted(value: object, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, jax.Array) and _is_deleted(value):
        yield path, f"{value.dtype}[{','.join(map(str, value.shape))}]"
    elif depth < _DEEPEST:
        for step, part in children(value, lambda cls: True) or ():
            yield from _deleted(part, path + step, depth + 1)


_DEEPEST = 4


def _other_name(taken: tuple[str, ast.Call, ast.stmt], shown: str, name: str) -> Cause:
    """The array was given away under another name than it is used by."""
    file, call, _ = taken
    spelled = source.text_of(span_of(file, call))
    return Cause(
        title=f"{shown} is deleted: `{spelled}` takes the memory of what it is given",
        explanation=f"Possibly `{name}` is the same array as one of its arguments, under another name: no other call "
        "in the source donates. Keep a copy (`jnp.copy`) where the second name is made.",
        evidence=(Evidence("donates", span_of(file, call)),),
        sure=False,
    )


def _twice(failing: Failing) -> Cause | None:
    """`f(x, x)` with `x` donated."""
    if not isinstance(failing.node, ast.Call):
        return None
    seen: dict[str, ast.expr] = {}
    for node in failing.node.args:
        again = seen.setdefault(failing.text(node), node)
        if again is not node:
            copy = call(f"{alias(failing.scope, 'jax.numpy')}.copy", node)
            return Cause(
                title=f"{failing.shown(node)} is donated and passed a second time in the same call",
                explanation="Its memory is given to the result, so nothing else may read it. Pass a copy.",
                evidence=failing.evidence(again, node),
                fix=text(copy),
                replaces=failing.site.span_of(node),
            )
    return None


def _is_deleted(value: object) -> bool:
    return isinstance(value, jax.Array) and not is_tracer(value) and value.is_deleted()


def _rebound(file: str, target: ast.expr, call: ast.Call, name: str) -> str:
    """`params = update(params, g)`; of several results, the first takes the name. A name that is read is kept."""
    if isinstance(target, ast.Name) and target.id in loaded(source.tree(file) or ast.Module([], [])):
        return text(ast.Assign([expression(name), target], call, lineno=0))
    if isinstance(target, ast.Tuple):
        return text(ast.Assign([ast.Tuple([expression(name), *target.elts[1:]])], call, lineno=0))
    return text(ast.Assign([expression(name)], call, lineno=0))


def _donations(failing: Failing, name: str) -> Iterator[tuple[str, ast.Call, ast.stmt]]:
    """Calls that pass the name where the called function donates, latest first; the failing cell's first."""
    for file, tree in failing.own_first():
        statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
        for statement in reversed(statements):
            for node in ast.walk(statement) if not hasattr(statement, "body") else ():
                if isinstance(node, ast.Call) and _donates(failing, file, node, name):
                    yield file, node, statement


def _donates(failing: Failing, file: str, call: ast.Call, name: str) -> bool:
    given: dict[int | str, ast.expr] = dict(enumerate(call.args))
    given |= {word.arg: word.value for word in call.keywords if word.arg}
    places = {place for place, node in given.items() if not name or _same(file, node, name)}
    return bool(places) and bool(places & _donated(failing, call))


def _same(file: str, node: ast.expr, name: str) -> bool:
    """Whether an argument is spelled so, or is the same attribute of an object under another name."""
    spelled = source.text_of(span_of(file, node))
    _, dot, attribute = name.rpartition(".")
    return spelled == name or bool(dot and attribute.isidentifier() and spelled.endswith(f".{attribute}"))


def _donated(failing: Failing, call: ast.Call) -> set[int | str]:
    """Positions and names of the arguments that the called function donates."""
    jits = [call.func] if isinstance(call.func, ast.Call) else [jit for _, jit in made_from(failing, call.func)]
    function = function_of(failing.site, call.func)
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    marked = [function.node] if function is not None else list(_methods(failing, method))
    shift = bool(method) and (function is None or function.bound)
    jits += [each for node in marked if isinstance(node, ast.FunctionDef) for each in node.decorator_list]
    found: set[int | str] = set()
    for word in (word for jit in jits if isinstance(jit, ast.Call) for word in jit.keywords):
        if word.arg in ("donate_argnums", "donate_argnames"):
            found |= {part.value for part in ast.walk(word.value) if _is_place(part)}  # pyright: ignore[reportAttributeAccessIssue]
        elif word.arg == "donate" and getattr(word.value, "value", "") in ("all", "all-except-first"):  # Equinox
            found |= set(range(getattr(word.value, "value", "") != "all", 20))
    if shift and marked:
        found = {place - 1 if isinstance(place, int) else place for place in found}
    names = function.parameters if function is not None else []
    return found | {other for number, name in enumerate(names) for other in (number, name) if {number, name} & found}


def _is_place(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, str)


def _methods(failing: Failing, name: str) -> Iterator[ast.FunctionDef]:
    """Methods of that name, where the object itself can't be asked."""
    for _, node in failing.nodes() if name else ():
        if isinstance(node, ast.ClassDef):
            yield from (part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == name)


@on_error("read-only-view", "a NumPy view of a JAX array is written to")
def read_only_view(failing: Failing) -> Cause | None:
    """`np.asarray(x)` of a JAX array shares its memory, which must not change, so the view is read-only.
    `np.array(x)` makes a copy that can be written.

    Sure: NumPy refused the assignment. That the array came from JAX is taken from the line that made it; where
    that isn't found the finding says possible.
    """
    if not failing.says(r"(assignment destination|output array|\w+ array) is read-only"):
        return None
    root = _written(failing)
    made = _view(failing, root) if root is not None else None
    fix, replaces = "", None
    if made is not None:
        file, made_by = made
        fix, replaces = _copied(made_by), span_of(file, made_by)
    name = failing.text(root) if root is not None else "the array"
    return Cause(
        title=f"`{name}` is a read-only view of another array's memory",
        explanation="`np.asarray` and `jax.device_get` share the memory of a JAX array, which must not change. "
        "`np.array` copies." + ("" if made else " Where it was made was not found: its owner may be another library."),
        evidence=(Evidence("made here", replaces),) if replaces else (),
        fix=fix,
        replaces=replaces,
        sure=made is not None,
    )


def _written(failing: Failing) -> ast.expr | None:
    """The name or attribute of the array that is written to, by an assignment or a method such as `sort`."""
    match failing.site.statement:
        case ast.Assign(targets=[target, *_]) | ast.AugAssign(target=target):
            pass
        case _:
            target = _owner(failing.node)
    while isinstance(target, ast.Subscript):
        target = target.value
    return target if isinstance(target, ast.Name | ast.Attribute) else None


def _owner(node: ast.AST | None) -> ast.expr | None:
    """`v` of `v.sort()`."""
    return node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None


def _view(failing: Failing, root: ast.expr) -> tuple[str, ast.Call] | None:
    """The call that made the view, assigned to that name or attribute."""
    for file, value in made_from(failing, root):
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute | ast.Name):
            name = value.func.attr if isinstance(value.func, ast.Attribute) else value.func.id
            if name in ("asarray", "device_get"):
                return file, value
    return None


def _copied(made: ast.Call) -> str:
    if isinstance(made.func, ast.Attribute) and made.func.attr == "asarray":
        return text(ast.Call(ast.Attribute(made.func.value, "array"), made.args, made.keywords))
    return text(call("jax.tree.map", ast.parse("lambda a: a.copy()", mode="eval").body, made))
