"""Arguments and results that jit can't take: strings and objects, unhashable statics, methods, big integers."""

import ast
import re
from collections.abc import Iterator

from jaxmagic.core.failures.operands import is_array
from jaxmagic.core.lines import values
from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.functions import Function, function_of
from jaxmagic.core.rules.jits import is_jit, made_by, with_at, with_statics
from jaxmagic.core.rules.rewrite import replaced, text
from jaxmagic.core.source.nodes import parts
from jaxmagic.core.source.syntax import span_of
from jaxmagic.records import Evidence, Span


def _jitted(failing: Failing) -> Function | None:
    """The function that the failing call passes arguments to."""
    node = failing.node
    if not isinstance(node, ast.Call):
        return None
    match node.func:
        case ast.Call(args=[function, *_]) if is_jit(failing.site, node.func.func):
            return function_of(failing.site, function)
        case ast.Attribute(attr=name) if function_of(failing.site, node.func) is None:
            made = [jitted.args[0] for _, jitted in made_by(failing, node.func)]
            names = [name, *(given.attr for given in made if isinstance(given, ast.Attribute))]
            return next((method for method in _methods(failing) if method.name in names), None)
    found = function_of(failing.site, node.func)
    if found is None and (said := failing.says(r"^Error interpreting argument to <function (\w+)\.(\w+) at ")):
        return next((method for method in _methods(failing, said[1]) if method.name == said[2]), None)
    return found


def _methods(failing: Failing, owner: str = "") -> Iterator[Function]:
    """Methods in the files of the user, newest first: the object itself can't be asked without running code."""
    for file, node in failing.nodes():
        if isinstance(node, ast.ClassDef) and owner in ("", node.name):
            yield from (Function(file, part, True) for part in node.body if isinstance(part, ast.FunctionDef))


def _given(failing: Failing, function: Function | None, name: str) -> ast.expr | None:
    """The expression passed for a parameter."""
    node = failing.node
    if not isinstance(node, ast.Call):
        return None
    for word in node.keywords:
        if word.arg == name:
            return word.value
    names = function.parameters if function is not None else []
    index = names.index(name) if name in names else -1
    return node.args[index] if 0 <= index < len(node.args) else None


def _static(failing: Failing, function: Function | None, name: str) -> tuple[str, Span | None]:
    """The jit of that function with the parameter static."""
    node = failing.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Call) and is_jit(failing.site, node.func.func):
        return text(with_statics(node.func, [name])), failing.site.span_of(node.func)
    decorators = function.node.decorator_list if function and isinstance(function.node, ast.FunctionDef) else []
    for decorator in decorators:
        if function is not None and is_jit(failing.site, decorator):
            span = function.span_of(decorator)
            return "@" + text(with_statics(decorator, [name])), with_at(span)
    for file, jitted in made_by(failing, node.func if isinstance(node, ast.Call) else None):
        return text(with_statics(jitted, [name])), span_of(file, jitted)
    return "", None


@on_error("non-array-argument", "a jitted function got a string, an object or another value that is no array")
def non_array_argument(failing: Failing) -> Cause | None:
    """The arguments of a jitted function are arrays, numbers and trees of them. A setting (a string, a callable, a
    configuration) is marked static; a method jitted as it stands gets `self`, an object; metadata among arrays in
    a dict has to be kept apart.

    Sure: JAX looked at the argument and says which.
    """
    match = failing.says(
        r"The problematic value is of type <class '([^']+)'> and was passed to the function at path (.+?)\.\n"
    )
    if match is None:
        return None
    if isinstance(failing.node, ast.Call) and _of_jax(failing.scope.get(failing.node.func)):
        return None  # an operation of JAX's own, whose parameters are no settings of the user's
    kind, path = match[1].rpartition(".")[2], match[2]
    name = re.split(r"[.\[]", path)[0]
    function = _jitted(failing)
    given = _given(failing, function, name)
    shown = f"`{failing.text(given)}` " if given is not None else ""
    evidence = (Evidence(f"{path} is a {kind}", failing.site.span_of(given) if given is not None else failing.span),)
    if name == "self":
        return _method(failing, function, kind, evidence)
    if path != name:
        fix, replaces = _without_key(failing, given, path)
        return Cause(
            title=f"`{path}` is a {kind}, which jit can't take",
            explanation=f"All leaves of {shown or 'it '}must be arrays or numbers. Keep what is not in another "
            "argument, and make that one static.",
            evidence=evidence,
            fix=fix,
            replaces=replaces,
        )
    if (container := _container(failing, given, kind)) is not None:
        return _registered(container, name, kind, evidence)
    fix, replaces = _static(failing, function, name)
    return Cause(
        title=f"argument `{name}` is a {kind}, which jit can't trace",
        explanation=f"{shown or 'It '}is a setting, not data: mark `{name}` static, and each new value compiles once. "
        "A static value must be hashable.",
        evidence=evidence,
        fix=fix,
        replaces=replaces,
    )


def _of_jax(function: object) -> bool:
    module = getattr(function, "__module__", "")
    return isinstance(module, str) and module.partition(".")[0] == "jax"


def _container(failing: Failing, given: ast.expr | None, kind: str) -> tuple[str, ast.ClassDef] | None:
    """The user's class of an argument, where the object holds arrays: data, and no setting."""
    value = failing.value(given) if given is not None else None
    holds = value is not None and bool(values.leaves(value, 1)[0])
    made = isinstance(given, ast.Call) and any(failing.aval(part) is not None for part in parts(given))
    if not holds and not made:
        return None
    classes = ((file, node) for file, node in failing.nodes() if isinstance(node, ast.ClassDef))
    return next(((file, node) for file, node in classes if node.name == kind), None)


def _registered(found: tuple[str, ast.ClassDef], name: str, kind: str, evidence: tuple[Evidence, ...]) -> Cause:
    """An object of arrays whose class JAX does not know as a container: a dataclass can be registered as one."""
    file, node = found
    first = next(iter(node.decorator_list), None)
    marked = first is not None and "dataclass" in text(first)
    kinds = {text(part.annotation) for part in node.body if isinstance(part, ast.AnnAssign)}
    plain = not any(re.search(r"str|Callable|Literal|Path", each) for each in kinds)
    fix, replaces = "", None
    if first is not None and marked and plain:
        replaces = with_at(span_of(file, first))
        fix = f"@jax.tree_util.register_dataclass\n@{text(first)}"
    return Cause(
        title=f"argument `{name}` is a {kind}, a class that JAX does not know as a container",
        explanation=f"It holds arrays, so it is data. Register the class, and jit takes `{kind}` apart into its "
        "arrays: `jax.tree_util.register_dataclass` for a dataclass, or make it an Equinox or NNX module. What is a "
        "setting in it is marked static there.",
        evidence=(*evidence, Evidence(f"`{kind}` is defined here", span_of(file, node))),
        fix=fix,
        replaces=replaces,
    )


def _method(failing: Failing, function: Function | None, kind: str, evidence: tuple[Evidence, ...]) -> Cause:
    fix, replaces = "", None
    if function is not None and isinstance(function.node, ast.FunctionDef):
        for decorator in function.node.decorator_list:
            if is_jit(failing.site, decorator) and not isinstance(decorator, ast.Call):
                span = function.span_of(decorator)
                fix = f"@{text(decorator)}(static_argnums=0)"
                replaces = Span(span.file, span.line, span.column - 1, span.end_line, span.end_column)
    return Cause(
        title=f"a jitted method gets `self`, a {kind}, which jit can't trace",
        explanation="`jax.jit` on a method traces the object too. Make the class a pytree (a registered dataclass, or "
        "an Equinox or NNX module), or mark `self` static: its attributes are then frozen when it is first traced, "
        "and changing them later goes unnoticed.",
        evidence=evidence,
        fix=fix,
        replaces=replaces,
    )


def _without_key(failing: Failing, given: ast.expr | None, path: str) -> tuple[str, Span | None]:
    """A dict display without the item that is no array."""
    match = re.search(r"\['([^']+)'\]$", path)
    if match is None or given is None:
        return "", None
    if isinstance(given, ast.Dict):
        pairs = [(k, v) for k, v in zip(given.keys, given.values, strict=True) if getattr(k, "value", None) != match[1]]
        kept = ast.Dict([key for key, _ in pairs], [value for _, value in pairs])
        return text(kept), failing.site.span_of(given)
    spelled = failing.text(given)
    without = f"{{key: value for key, value in {spelled}.items() if key != {match[1]!r}}}"
    return without, failing.site.span_of(given)


@on_error("unhashable-static", "a static argument is a list, a dict or an array")
def unhashable_static(failing: Failing) -> Cause | None:
    """Static arguments are looked up in a cache, so they must be hashable: a tuple for a list, a frozen dataclass
    for a dict. An array can't be static at all: pass it as an ordinary, traced argument.

    Sure: JAX tried to hash it. JAX names the type only; the parameter is found by the value of that type.
    """
    match = failing.says(r"Non-hashable static arguments.*?object of type <class '([^']+)'>")
    if match is None:
        return None
    function, kind = _jitted(failing), match[1].rpartition(".")[2]
    name, given = _of_type(failing, function, match[1])
    array = "Array" in kind or kind == "ndarray"
    fix, replaces = "", None
    numbers = isinstance(given, ast.Dict) and all(
        isinstance(value, ast.Constant) and isinstance(value.value, int | float) for value in given.values
    )
    if (array or numbers) and function is not None and name:
        fix, replaces = _not_static(function, name, failing)
    elif given is not None:
        fix, replaces = _hashable(failing, given, kind)
    spelled = f"`{failing.text(given)}`" if given is not None else "the value"
    what = "an array" if array else f"a {kind}"
    way = (
        "An array is data: pass it traced, without naming it static."
        if array
        else "Static values are looked up in a cache; a tuple can be hashed, a list or dict can't."
        if kind in ("list", "dict", "set")
        else "Static values are looked up in a cache: make it a frozen dataclass, with tuples for lists."
    )
    if numbers:
        way += " It holds numbers, which can be traced as well, without naming it static."
    return Cause(
        title=f"static argument `{name}` is {what}, which can't be hashed"
        if name
        else f"a static argument is {what}, which can't be hashed",
        explanation=f"{spelled} is passed for `{name or 'a static argument'}`"
        + (f" of `{function.name}`" if function else "")
        + f". {way}",
        evidence=(Evidence(f"`{name}` is {what}", failing.site.span_of(given)),) if given is not None else (),
        fix=fix,
        replaces=replaces,
    )


def _of_type(failing: Failing, function: Function | None, kind: str) -> tuple[str, ast.expr | None]:
    """Name and expression of the argument whose value has that type."""
    node = failing.node
    if not isinstance(node, ast.Call):
        return "", None
    names = function.parameters if function is not None else []
    pairs = [*zip(names, node.args, strict=False), *((word.arg or "", word.value) for word in node.keywords)]
    displays = {"list": ast.List | ast.ListComp, "dict": ast.Dict | ast.DictComp, "set": ast.Set | ast.SetComp}
    for name, given in pairs:
        value = failing.scope.get(given)
        spelled = displays.get(kind)
        if (
            (spelled and isinstance(given, spelled))
            or f"{type(value).__module__}.{type(value).__qualname__}".endswith(kind)
            or (isinstance(given, ast.Call) and text(given.func).rpartition(".")[2] == kind.rpartition(".")[2])
            or ("Array" in kind and is_array(value))
        ):
            return name, given
    return "", None


def _hashable(failing: Failing, given: ast.expr, kind: str) -> tuple[str, Span | None]:
    if isinstance(given, ast.List):
        return text(ast.Tuple(given.elts)), failing.site.span_of(given)
    made = {"list": "tuple({})", "set": "frozenset({})"}.get(kind)
    return (made.format(failing.text(given)), failing.site.span_of(given)) if made else ("", None)


def _not_static(function: Function, name: str, failing: Failing) -> tuple[str, Span | None]:
    """The decorator without that name, or its position, among the statics."""
    position = [arg.arg for arg in (*function.node.args.posonlyargs, *function.node.args.args)].index(name)
    decorators = function.node.decorator_list if isinstance(function.node, ast.FunctionDef) else []
    for decorator in decorators:
        for constant in ast.walk(decorator):
            if isinstance(constant, ast.Tuple | ast.List) and any(
                getattr(e, "value", "") in (name, position) for e in constant.elts
            ):
                kept = [element for element in constant.elts if getattr(element, "value", "") not in (name, position)]
                span = function.span_of(decorator)
                return "@" + text(replaced(decorator, constant, ast.Tuple(kept))), with_at(span)
            if isinstance(constant, ast.keyword) and getattr(constant.value, "value", None) in (name, position):
                assert isinstance(decorator, ast.Call)
                keywords = [word for word in decorator.keywords if word is not constant]
                span = function.span_of(decorator)
                return "@" + text(ast.Call(decorator.func, decorator.args, keywords)), with_at(span)
    return "", None


@on_error("result-not-array", "a jitted function returns a string or another object")
def result_not_array(failing: Failing) -> Cause | None:
    """What a jitted function returns are arrays, numbers and trees of them: a compiled program has no strings and
    no objects to give back.

    Sure: JAX looked at the result.
    """
    match = failing.says(
        r"function (\S+) at .*? returned a value of type <class '([^']+)'>(?: at output component (\S+?))?,? "
    )
    if match is None:
        return None
    function = _jitted(failing)
    result = function.returned()[-1] if function is not None and function.returned() else None
    span = function.span_of(result) if function is not None and result is not None else None
    where = f" at {match[3]}" if match[3] else ""
    return Cause(
        title=f"`{match[1]}` returns a {match[2].rpartition('.')[2]}{where}, which a compiled program can't give back",
        explanation="Return arrays and numbers only; keep strings, functions and other objects outside.",
        span=span,
        evidence=(Evidence("called here", failing.span),),
    )


@on_error("not-a-function", "jit, grad or vmap got the result of a call instead of a function")
def not_a_function(failing: Failing) -> Cause | None:
    """`jax.jit(f(x))` passes what `f(x)` returned. Write `jax.jit(f)(x)`.

    Sure: JAX looked at its argument.
    """
    node = failing.node
    if not failing.says(r"^Expected a callable value, got") or not isinstance(node, ast.Call) or not node.args:
        return None
    inner, fix = node.args[0], ""
    if isinstance(inner, ast.Call):
        fix = text(
            ast.Call(ast.Call(node.func, [inner.func, *node.args[1:]], node.keywords), inner.args, inner.keywords)
        )
    return Cause(
        title=f"`{failing.text(node.func)}` takes a function, and `{failing.text(inner)}` is a value",
        explanation="The inner call runs first, and its result is not a function.",
        fix=fix,
        replaces=failing.span,
    )


@on_error("integer-too-big", "a Python integer does not fit the default integer type")
def integer_too_big(failing: Failing) -> Cause | None:
    """JAX's integers have 32 bits unless 64-bit types are switched on; a Python integer beyond 2147483647 can't be
    passed.

    Sure: JAX refused the number.
    """
    match = failing.says(r"overflow was encountered while parsing an argument.*?argument path is (\S+?)\.(?:\s|$)")
    if failing.kind != "OverflowError" or match is None:
        return None
    given = _given(failing, _jitted(failing), match[1])
    shown = f"`{failing.text(given)}`" if given is not None else "the number"
    return Cause(
        title=f"argument `{match[1]}`: {shown} does not fit in 32 bits",
        explanation="Integers have 32 bits unless 64-bit types are on, before any array is made. A float holds the "
        "magnitude, not every digit.",
        evidence=(Evidence("passed here", failing.site.span_of(given)),) if given is not None else (),
        fix='jax.config.update("jax_enable_x64", True)',
    )
