"""Memory: arrays that were donated and are gone, and NumPy views that can't be written."""

import ast
from collections.abc import Iterator

import jax

from jaxmagic.core.failures.operands import is_tracer
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import function_of
from jaxmagic.core.rules.rewrite import text
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import parts
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
    match = failing.says(r"Array has been deleted with shape=(\S+?)\.?$")
    if match is None:
        return None
    used = next((part for part in parts(failing.node) if _is_deleted(failing.value(part))), None)
    name = failing.text(used) if used is not None else ""
    taken = next(_donations(failing, name), None) if name else None
    shown = f"`{name}` ({match[1]})" if name else f"an array ({match[1]})"
    if taken is None:
        return Cause(
            title=f"{shown} was deleted: donated to a jitted function, or by `.delete()`",
            explanation="A donated argument's memory is given to the result. Bind the result to the same name, or "
            "leave `donate_argnums` out while debugging.",
        )
    file, call, statement = taken
    fix = ""
    if isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1:
        fix = _rebound(statement.targets[0], call, name)
    return Cause(
        title=f"{shown} was donated to `{source.text_of(span_of(file, call.func))}` and is deleted",
        explanation=f"`{source.text_of(span_of(file, call))}` took its memory for the result. Bind the result to the "
        "same name; in a notebook, running the cell again is enough to meet the deleted array.",
        evidence=(Evidence("donated here", span_of(file, call)),),
        fix=fix,
        replaces=span_of(file, statement),
    )


def _is_deleted(value: object) -> bool:
    return isinstance(value, jax.Array) and not is_tracer(value) and value.is_deleted()


def _rebound(target: ast.expr, call: ast.Call, name: str) -> str:
    """`params = update(params, g)`; of several results, the first takes the name."""
    if isinstance(target, ast.Tuple):
        return text(ast.Assign([ast.Tuple([ast.Name(name), *target.elts[1:]])], call, lineno=0))
    return text(ast.Assign([ast.Name(name)], call, lineno=0))


def _donations(failing: Failing, name: str) -> Iterator[tuple[str, ast.Call, ast.stmt]]:
    """Calls that pass the name where the called function donates, latest first; the failing cell's first."""
    files = [failing.site.file, *(file for file in reversed(failing.files) if file != failing.site.file)]
    for file in files:
        statements = [node for node in ast.walk(source.tree(file) or ast.Module([], [])) if isinstance(node, ast.stmt)]
        for statement in reversed(statements):
            for call in ast.walk(statement) if not hasattr(statement, "body") else ():
                if isinstance(call, ast.Call) and _donates(failing, file, call, name):
                    yield file, call, statement


def _donates(failing: Failing, file: str, call: ast.Call, name: str) -> bool:
    given: dict[int | str, ast.expr] = dict(enumerate(call.args))
    given |= {word.arg: word.value for word in call.keywords if word.arg}
    places = {place for place, node in given.items() if source.text_of(span_of(file, node)) == name}
    return bool(places) and bool(places & _donated(failing, call))


def _donated(failing: Failing, call: ast.Call) -> set[int | str]:
    """Positions and names of the arguments that the called function donates."""
    jits = [call.func] if isinstance(call.func, ast.Call) else _made_by(failing, call.func)
    function = function_of(failing.site, call.func)
    if function is not None and isinstance(function.node, ast.FunctionDef):
        jits += function.node.decorator_list
    found: set[int | str] = set()
    for word in (word for jit in jits if isinstance(jit, ast.Call) for word in jit.keywords):
        if word.arg in ("donate_argnums", "donate_argnames"):
            found |= {part.value for part in ast.walk(word.value) if _is_place(part)}  # pyright: ignore[reportAttributeAccessIssue]
    names = function.parameters if function is not None else []
    return found | {other for number, name in enumerate(names) for other in (number, name) if {number, name} & found}


def _is_place(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, str)


def _made_by(failing: Failing, function: ast.expr) -> list[ast.expr]:
    """What the called name was assigned from: `update = jax.jit(step, donate_argnums=0)`."""
    if not isinstance(function, ast.Name):
        return []
    found = []
    for file in failing.files:
        for node in ast.walk(source.tree(file) or ast.Module([], [])):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == function.id:
                    found.append(value)
    return found


@on_error("read-only-view", "a NumPy view of a JAX array is written to")
def read_only_view(failing: Failing) -> Cause | None:
    """`np.asarray(x)` of a JAX array shares its memory, which must not change, so the view is read-only.
    `np.array(x)` makes a copy that can be written.

    Sure: NumPy refused the assignment. That the array came from JAX is taken from the line that made it; where
    that isn't found the finding says possible.
    """
    if not failing.says(r"assignment destination is read-only"):
        return None
    target = next((part for part in _targets(failing.site.statement)), None)
    root = target.value if isinstance(target, ast.Subscript) else None
    made = _view(failing, root.id) if isinstance(root, ast.Name) else None
    fix, replaces = "", None
    if made is not None:
        file, call = made
        fix = text(ast.Call(ast.Attribute(call.func.value, "array"), call.args, call.keywords))  # pyright: ignore[reportAttributeAccessIssue]
        replaces = span_of(file, call)
    name = failing.text(root) if root is not None else "the array"
    return Cause(
        title=f"`{name}` is a read-only view of another array's memory",
        explanation="`np.asarray` of a JAX array shares its memory, which must not change. `np.array` copies."
        + ("" if made else " Where it was made was not found, so the owner may be another library's."),
        evidence=(Evidence("made here", replaces),) if replaces else (),
        fix=fix,
        replaces=replaces,
        sure=made is not None,
    )


def _targets(statement: ast.stmt | None) -> list[ast.expr]:
    match statement:
        case ast.Assign(targets=targets):
            return targets
        case ast.AugAssign(target=target):
            return [target]
    return []


def _view(failing: Failing, name: str) -> tuple[str, ast.Call] | None:
    for file in reversed(failing.files):
        for node in ast.walk(source.tree(file) or ast.Module([], [])):
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=target)], value=ast.Call(func=ast.Attribute(attr="asarray")) as call
                ) if target == name:
                    return file, call
    return None
