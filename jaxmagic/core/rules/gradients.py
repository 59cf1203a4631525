"""Derivatives that can't be taken as asked: outputs, inputs, loops without reverse mode."""

import ast
from typing import NamedTuple

from jaxmagic.core.lines import values
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import Function, function_of, made_from
from jaxmagic.core.rules.jits import static_fix
from jaxmagic.core.rules.rewrite import replaced, text
from jaxmagic.core.source import spans as source
from jaxmagic.core.source.nodes import name_called
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence, Span

_GRADS = ("grad", "value_and_grad", "jacrev", "filter_grad", "filter_value_and_grad")


class _Grad(NamedTuple):
    """The `jax.grad(f, …)` that failed, and where it is written."""

    file: str
    node: ast.Call

    @property
    def name(self) -> str:
        return name_called(self.node)

    def with_keyword(self, name: str, value: object) -> tuple[str, Span]:
        """The call with a keyword set, or left out for None."""
        keywords = [word for word in self.node.keywords if word.arg != name]
        if value is not None:
            keywords.append(ast.keyword(name, ast.Constant(value)))  # pyright: ignore[reportArgumentType]
        return text(ast.Call(self.node.func, self.node.args, keywords)), span_of(self.file, self.node)


def _grad_call(failing: Failing) -> _Grad | None:
    """In the failing expression, or where the function that it calls was made: `step = jax.jit(jax.grad(loss))`."""
    called = failing.node.func if isinstance(failing.node, ast.Call) else None
    for file, value in [(failing.site.file, failing.node), *made_from(failing, called)]:
        for node in ast.walk(value) if value is not None else ():
            match node:
                case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[_, *_]) if name in _GRADS:
                    return _Grad(file, node)
    return None


def _differentiated(failing: Failing, grad: _Grad | None) -> Function | None:
    if grad is not None:
        return function_of(failing.site, grad.node.args[0])
    function = function_of(failing.site, failing.node.func) if isinstance(failing.node, ast.Call) else None
    marked = function.node.decorator_list if function and isinstance(function.node, ast.FunctionDef) else []
    names = {getattr(part, "attr", getattr(part, "id", "")) for each in marked for part in ast.walk(each)}
    return function if names & set(_GRADS) else None


@on_error("grad-output", "grad of a function whose result is not one number")
def grad_output(failing: Failing) -> Cause | None:
    """`grad` differentiates a function of one real number as result. An array has to be reduced (`.sum()`,
    `.mean()`), or differentiated element by element with `jax.jacobian`; results beside the loss are returned as
    `(loss, extra)` with `has_aux=True`.

    Sure: JAX looked at the output.
    """
    shape = failing.says(r"Gradient only defined for scalar-output functions\. Output had shape: (\([\d, ]*\))")
    nothing = failing.says(r"Gradient only defined for scalar-output functions\. Output was None")
    other = nothing or failing.says(r"Gradient only defined for scalar-output functions\. Output was (.{1,200})")
    if not (shape or other):
        return None
    grad = _grad_call(failing)
    function = _differentiated(failing, grad)
    result = function.returned()[-1] if function is not None and function.returned() else None
    span = function.span_of(result) if function is not None and result is not None else None
    if shape:
        fix = text(ast.Call(ast.Attribute(result, "sum"), [], [])) if result is not None else ""
        return Cause(
            title=f"grad needs a function that returns one number, this one returns shape {shape[1]}",
            explanation="The gradient of an array is a whole Jacobian. Reduce the result with `.sum()` or `.mean()`, "
            "or use `jax.jacobian`.",
            evidence=(Evidence("the result", span),),
            fix=fix,
            replaces=span,
        )
    if nothing:
        return Cause(
            title="grad needs a function that returns one number, this one returns None",
            explanation="A function without a `return` gives None. Return the loss.",
            span=function.span_of(function.node) if function is not None else None,
            evidence=(Evidence("differentiated here", failing.span),),
        )
    pair = isinstance(result, ast.Tuple) and len(result.elts) == 2
    fix, replaces = grad.with_keyword("has_aux", True) if pair and grad is not None else ("", None)
    spelled = f"`{function.text(result)}`" if function is not None and result is not None else "its output"
    return Cause(
        title="grad needs a function that returns one number, this one returns more",
        explanation=f"{spelled} is not a single number."
        + (" With `has_aux=True` the second part comes back beside the gradient." if pair else ""),
        evidence=(Evidence("the result", span),),
        fix=fix,
        replaces=replaces,
    )


@on_error("grad-aux", "has_aux=True, but the function does not return a pair")
def grad_aux(failing: Failing) -> Cause | None:
    """With `has_aux=True` the function returns `(loss, extra)`.

    Sure: JAX looked at the output.
    """
    grad = _grad_call(failing)
    if not failing.says(r"function with aux output to return a two-element tuple") or grad is None:
        return None
    fix, replaces = _pair(failing, grad) or grad.with_keyword("has_aux", None)
    return Cause(
        title="has_aux=True, but the function returns no pair",
        explanation="With `has_aux=True` the function returns `(loss, extra)`. Return a pair, or leave `has_aux` out.",
        fix=fix,
        replaces=replaces,
    )


def _pair(failing: Failing, grad: _Grad) -> tuple[str, Span] | None:
    """The result with None beside it, where the caller takes a pair apart."""
    function = _differentiated(failing, grad)
    match failing.site.statement:
        case ast.Assign(targets=[ast.Tuple(elts=[first, *_])]):
            aux = isinstance(first, ast.Tuple) or grad.name != "value_and_grad"
        case _:
            aux = False
    if not aux or function is None or len(function.returned()) != 1:
        return None
    (result,) = function.returned()
    return text(ast.Tuple([result, ast.Constant(None)])), function.span_of(result)


@on_error("grad-input", "grad with respect to integers or booleans")
def grad_input(failing: Failing) -> Cause | None:
    """A derivative is taken with respect to real (or complex) numbers. JAX says only that it "got int32"; here the
    leaf is named by its path: a step counter inside the parameters, say, or a Python integer.

    Sure: JAX looked at the inputs; the leaf is found in the argument that `argnums` names.
    """
    match = failing.says(r"(\w+) requires real.*?inputs.*?but got (\w+)")
    node = failing.node
    if match is None or not isinstance(node, ast.Call):
        return None
    grad = _grad_call(failing)
    arguments = [node.args[index] for index in _argnums(grad.node if grad else None) if index < len(node.args)]
    guilty = [found for argument in arguments for found in _integers(failing, argument)]
    named = " and ".join(f"`{name}` ({kind})" for name, kind in guilty) or "an input"
    fix, replaces = "", None
    constants = [part for part in arguments if isinstance(part, ast.Constant) and type(part.value) is int]
    if constants:
        fix, replaces = repr(float(str(constants[0].value))), failing.site.span_of(constants[0])
    elif grad is not None:
        fix, replaces = grad.with_keyword("allow_int", True)
    return Cause(
        title=f"{match[1]} with respect to {named}, which holds no real numbers",
        explanation="Keep counters and flags out of the differentiated argument (another argument, `argnums`, or "
        "`equinox.partition`), or let them through with `allow_int=True`: their gradient is then `float0`.",
        evidence=tuple(Evidence(f"{name}: {kind}", failing.span) for name, kind in guilty),
        fix=fix,
        replaces=replaces,
    )


def _argnums(grad: ast.Call | None) -> list[int]:
    """Positions that are differentiated."""
    for word in grad.keywords if grad is not None else ():
        if word.arg == "argnums":
            numbers = [part.value for part in ast.walk(word.value) if isinstance(part, ast.Constant)]
            return [number for number in numbers if type(number) is int]
    return [0]


def _integers(failing: Failing, argument: ast.expr) -> list[tuple[str, str]]:
    """Leaves that are no real numbers, by path."""
    value = failing.value(argument)
    if type(value) in (int, bool):
        return [(failing.text(argument), type(value).__name__)]
    aval = failing.aval(argument)
    leaves = [("", aval)] if aval is not None else [(leaf.path, leaf.aval) for leaf in values.leaves(value, 200)[0]]
    wrong = [(path, aval) for path, aval in leaves if not aval.dtype.startswith(("float", "bfloat", "complex"))]
    return [(failing.text(argument) + path, str(aval)) for path, aval in wrong]


@on_error("grad-output-dtype", "grad of a function whose result is an integer or complex")
def grad_output_dtype(failing: Failing) -> Cause | None:
    """The differentiated result must be a real number: an integer (after `.astype(int)`, `round`, `argmax`) has no
    derivative, and of a complex one JAX must know whether the function is holomorphic.

    Sure: JAX looked at the output.
    """
    match = failing.says(r"(\w+) requires real-valued outputs.*?but got (\w+)")
    if match is None:
        return None
    function = _differentiated(failing, _grad_call(failing))
    result = function.returned()[-1] if function is not None and function.returned() else None
    span = function.span_of(result) if function is not None and result is not None else None
    way = (
        "Use `.real`, `jnp.abs` or `holomorphic=True`."
        if match[2].startswith("complex")
        else ("A derivative flows through real numbers only: keep the loss a float, without casting it to integers.")
    )
    return Cause(
        title=f"the differentiated function returns {match[2]}",
        explanation=way,
        evidence=(Evidence("the result", span),),
    )


@on_error("while-reverse-mode", "reverse-mode derivative through a while_loop or a fori_loop of traced length")
def while_reverse_mode(failing: Failing) -> Cause | None:
    """Going backwards needs the values of every step, and a loop of unknown length has no place to keep them. A
    `fori_loop` whose bounds are plain numbers becomes a `scan` and can be differentiated; its bound may have become
    traced through jit. Otherwise: forward mode (`jacfwd`), `scan` with a fixed bound, or a `custom_vjp`.

    Sure: JAX refused the loop; its line comes from the equation.
    """
    if not failing.says(r"Reverse-mode differentiation does not work for lax\.while_loop"):
        return None
    span = failing.equation
    loop = source.node_at(span) if span is not None else None
    bounds = loop.args[:2] if isinstance(loop, ast.Call) and name_called(loop) == "fori_loop" else []
    names = [part.id for bound in bounds for part in ast.walk(bound) if isinstance(part, ast.Name)]
    fix, replaces = static_fix(failing, names) if _plain_numbers(failing, bounds) else ("", None)
    if not fix:
        fix, replaces = _forward(failing)
    spelled = source.text_of(span) if span is not None else ""
    what = f"`{spelled}`" if 0 < len(spelled) < 120 and "\n" not in spelled else "a while loop"
    why = f" Its bound {' and '.join(f'`{name}`' for name in names)} is traced by jit; a static bound makes it a scan."
    return Cause(
        title=f"no reverse-mode derivative through {what}",
        explanation="Going backwards needs the values of every step, and a loop of unknown length has no place to "
        f"keep them.{why if names else ''} Forward mode (`jax.jacfwd`) works; `jax.lax.scan` with a fixed bound and "
        "a mask, or a `custom_vjp`, serve many inputs.",
        span=span,
        evidence=(Evidence("differentiated here", failing.span),),
        fix=fix,
        replaces=replaces,
    )


def _plain_numbers(failing: Failing, bounds: list[ast.expr]) -> bool:
    """Whether the loop's bounds are names and numbers: what is computed from an array can't be static."""
    return bool(bounds) and all(isinstance(bound, ast.Name | ast.Constant) for bound in bounds)


def _forward(failing: Failing) -> tuple[str, Span | None]:
    """`jax.jacfwd` for `jax.grad`."""
    grad = _grad_call(failing)
    if grad is None or not isinstance(grad.node.func, ast.Attribute):
        return "", None
    filtered = grad.name.startswith("filter_")
    forward = ast.Attribute(grad.node.func.value, "filter_jacfwd" if filtered else "jacfwd")
    if grad.name in ("grad", "filter_grad") and failing.node is not None and grad.node in ast.walk(failing.node):
        return text(replaced(failing.node, grad.node.func, forward)), failing.span
    if grad.name in ("grad", "filter_grad"):
        return text(ast.Call(forward, grad.node.args, grad.node.keywords)), span_of(grad.file, grad.node)
    match failing.node:
        case ast.Call(func=made, args=args, keywords=words) if made is grad.node and not grad.node.keywords:
            value = ast.Call(grad.node.args[0], args, words)
            return text(ast.Tuple([value, ast.Call(ast.Call(forward, grad.node.args, []), args, words)])), failing.span
    return "", None
