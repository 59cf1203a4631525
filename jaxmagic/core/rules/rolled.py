"""Python loops that were written out, as `fori_loop`, `scan` or `vmap`: where the body is sure to be the same."""

import ast
from collections.abc import Iterator

from jaxmagic.core.failures.operands import Scope
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.functions_called import function_behind
from jaxmagic.core.rules.ran import Ran, dotted
from jaxmagic.core.rules.rewrite import alias, indented, straight, text, tupled
from jaxmagic.core.rules.shapes_seen import Shapes
from jaxmagic.core.source.nodes import loaded, path_to, stored
from jaxmagic.records import Hint, Span

Fix = tuple[str, Span | None]
Comprehension = ast.ListComp | ast.GeneratorExp

_DEEPEST = 3
"""Functions that the number of a pass is followed into."""
_TAKE_ARRAYS = {"sin", "cos", "tan", "exp", "log", "sqrt", "tanh", "abs", "square", "where", "maximum", "minimum"}
_TAKE_ARRAYS |= {"power", "mod", "floor", "clip", "asarray", "array", "float32", "int32", "fold_in", "full_like"}
_STACKING = ("jax.numpy.stack", "jax.numpy.array", "jax.numpy.asarray")


def rolled(observed: Observed, piece: Ran, loop: ast.AST) -> Fix:
    """The loop with its body once in the program; empty where a pass may do what another does not."""
    match loop:
        case ast.For(target=ast.Name(id=name), iter=over, orelse=[]):
            return _Loop(observed, piece, loop, name).code(over)
        case ast.ListComp() | ast.GeneratorExp():
            return _mapped(observed, piece, loop)
    return "", None


class _Loop:
    def __init__(self, observed: Observed, piece: Ran, loop: ast.For, name: str) -> None:
        self._observed = observed
        self._piece = piece
        self._loop = loop
        self._name = name
        scope = Scope({}, observed.namespace)
        self._lax, self._jnp = alias(scope, "jax.lax"), alias(scope, "jax.numpy")

    def code(self, over: ast.expr) -> Fix:
        *body, last = self._loop.body
        match last:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=out), attr="append"), args=[item])):
                made = self._is_only_stacked(out)
            case _:
                body, out, item, made = self._loop.body, "", None, True
        names = self._carried(body)
        if not (made and names and straight(body)) or self._name in _read_below(self._piece, self._loop):
            return "", None
        bounds = over.args if isinstance(over, ast.Call) and text(over.func) == "range" else None
        numbered = bounds is not None and 1 <= len(bounds) <= 2
        if numbered and not may_be_traced(self._observed, self._piece, self._loop.body, self._name):
            return "", None
        if not numbered and not (isinstance(over, ast.Name) and Shapes(self._observed, self._piece).sizes(over)):
            return "", None
        state = tupled(names)
        if numbered and item is None:
            return self._fori(names, state, bounds or []), self._piece.span_of(self._loop)
        xs = text(over) if not numbered else f"{self._jnp}.arange({', '.join(text(each) for each in bounds or [])})"
        return self._scan(names, state, xs, body, out, item), self._piece.span_of(self._loop)

    def _fori(self, names: list[str], state: str, bounds: list[ast.expr]) -> str:
        begin, end = (ast.Constant(0), *bounds) if len(bounds) == 1 else bounds
        taken, unpack = (state, "") if len(names) == 1 else ("state", indented(f"{state} = state") + "\n")
        body = indented(text(*self._loop.body, ast.parse(f"return {state}").body[0]))
        first = state if len(names) == 1 else f"({state})"
        call = f"{self._lax}.fori_loop({text(begin)}, {text(end)}, step, {first})"
        return f"def step({self._name}, {taken}):\n{unpack}{body}\n{state} = {call}"

    def _scan(
        self, names: list[str], state: str, xs: str, body: list[ast.stmt], out: str, item: ast.expr | None
    ) -> str:
        taken, unpack = (state, "") if len(names) == 1 else ("state", indented(f"{state} = state") + "\n")
        held = state if len(names) == 1 else f"({state})"
        lines = indented(text(*body) + f"\nreturn {held}, {text(item) if item is not None else None}")
        return (
            f"def step({taken}, {self._name}):\n{unpack}{lines}\n"
            f"{held}, {out or '_'} = {self._lax}.scan(step, {held}, {xs})"
        )

    def _carried(self, body: list[ast.stmt]) -> list[str]:
        """Names that a pass hands on, each an array of one shape and dtype; none where that is not sure."""
        written = [name for name in stored(*body) if name != self._name]
        above = {arg.arg for arg in ast.walk(self._piece.node) if isinstance(arg, ast.arg)}
        above |= {name for each in _above(self._piece, self._loop) for name in stored(each)}
        lost = [name for name in written if name not in above and name in _read_below(self._piece, self._loop)]
        carried = [name for name in written if name in above]
        return carried if not lost and all(self._keeps_its_type(name) for name in carried) else []

    def _keeps_its_type(self, name: str) -> bool:
        hints = [hint for hint in _hints(self._observed, self._piece) if hint.name == name]
        until = self._loop.end_lineno or self._loop.lineno
        types = {
            (leaf.aval.shape, leaf.aval.dtype) for hint in hints if hint.span.line <= until for leaf in hint.leaves
        }
        inside = [hint for hint in hints if self._loop.lineno < hint.span.line <= until and len(hint.leaves) == 1]
        starts = [
            each.value.value
            for each in _above(self._piece, self._loop)
            if isinstance(each, ast.Assign) and name in stored(each) and isinstance(each.value, ast.Constant)
        ]
        kinds = {("float" if isinstance(start, float) else "int") for start in starts}
        return bool(inside) and len(types) == 1 and all(next(iter(types))[1].startswith(kind) for kind in kinds)

    def _is_only_stacked(self, name: str) -> bool:
        """Whether a list is made empty above the loop and is below it only made an array."""
        made = [each for each in _above(self._piece, self._loop) if name in stored(each)]
        match made:
            case [ast.Assign(targets=[ast.Name()], value=ast.List(elts=[]))]:
                pass
            case _:
                return False
        uses = [node for node in self._piece.own if isinstance(node, ast.Name) and node.id == name]
        stacked = [
            call.args[0]
            for call in self._piece.own
            if isinstance(call, ast.Call) and call.args and dotted(self._observed, self._piece, call.func) in _STACKING
        ]
        return len(uses) == 3 and sum(use in stacked for use in uses) == 1


def _mapped(observed: Observed, piece: Ran, node: Comprehension) -> Fix:
    """`jnp.stack([f(k) for k in range(n)])` as `jax.vmap(lambda k: f(k))(jnp.arange(n))`."""
    call = next((each for each in path_to(piece.node, node)[1:2] if isinstance(each, ast.Call)), None)
    scope = Scope({}, observed.namespace)
    match node.generators:
        case [
            ast.comprehension(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=bounds), ifs=[])
        ]:
            pass
        case _:
            return "", None
    stacked = call is not None and dotted(observed, piece, call.func) in _STACKING and len(call.args) == 1
    summed = call is not None and isinstance(call.func, ast.Name) and call.func.id == "sum" and len(call.args) == 1
    if not (stacked or summed) or call is None or call.keywords:
        return "", None
    if not may_be_traced(observed, piece, [node.elt], name) or any(
        isinstance(each, ast.Lambda) for each in ast.walk(node.elt)
    ):
        return "", None
    numbers = f"{alias(scope, 'jax.numpy')}.arange({', '.join(text(each) for each in bounds)})"
    code = f"{alias(scope, 'jax')}.vmap(lambda {name}: {text(node.elt)})({numbers})"
    return code + (".sum(axis=0)" if summed else ""), piece.span_of(call)


def may_be_traced(
    observed: Observed, piece: Ran, nodes: list[ast.stmt] | list[ast.expr], name: str, depth: int = 0
) -> bool:
    """Whether all that a number goes into takes arrays: arithmetic with arrays, their indices, functions of JAX's."""
    parents = {child: outer for node in nodes for outer in ast.walk(node) for child in ast.iter_child_nodes(outer)}
    uses = [node for each in nodes for node in ast.walk(each) if isinstance(node, ast.Name) and node.id == name]
    shapes = Shapes(observed, piece)
    return all(_is_taken(observed, piece, shapes, parents, use, depth) for use in uses)


def _is_taken(
    observed: Observed, piece: Ran, shapes: Shapes, parents: dict[ast.AST, ast.AST], node: ast.AST, depth: int
) -> bool:
    outer = parents.get(node)
    match outer:
        case ast.BinOp(left=left, right=right):
            other = right if left is node else left
            return _is_array(observed, piece, shapes, other) or _is_taken(
                observed, piece, shapes, parents, outer, depth
            )
        case ast.UnaryOp(op=ast.USub()) | ast.Tuple() | ast.Compare():
            return _is_taken(observed, piece, shapes, parents, outer, depth)
        case ast.Subscript(value=array, slice=key) if node is key or isinstance(key, ast.Tuple):
            array = array.value if isinstance(array, ast.Attribute) and array.attr == "at" else array
            return shapes.of_jax(array)
        case ast.Call(func=function) if node in outer.args:
            known = dotted(observed, piece, function)
            if known.startswith("jax."):
                return known.rpartition(".")[2] in _TAKE_ARRAYS
            inner = function_behind(observed, piece, function) if depth < _DEEPEST else None
            return inner is not None and _takes(observed, inner, outer.args.index(node), depth)  # pyright: ignore[reportArgumentType]
    return False


def _takes(observed: Observed, function: Ran, place: int, depth: int) -> bool:
    if isinstance(function.node, ast.Module):
        return False
    names = [arg.arg for arg in function.node.args.args if arg.arg != "self"]
    body = [function.node.body] if isinstance(function.node, ast.Lambda) else function.node.body
    seen = next(
        (
            hint.function
            for hint in observed.hints
            if hint.span.file == function.file and hint.function.rpartition(".")[2] == function.name.rpartition(".")[2]
        ),
        function.name,
    )
    known = Ran(function.file, function.node, seen, ())
    return place < len(names) and may_be_traced(observed, known, body, names[place], depth + 1)  # pyright: ignore[reportArgumentType]


def _is_array(observed: Observed, piece: Ran, shapes: Shapes, node: ast.expr) -> bool:
    made = isinstance(node, ast.Call) and dotted(observed, piece, node.func).startswith(("jax.numpy.", "jax.random."))
    return made or (isinstance(node, ast.Name | ast.Attribute) and shapes.of_jax(node))


def _hints(observed: Observed, piece: Ran) -> list[Hint]:
    return [hint for hint in observed.hints if (hint.function, hint.span.file) == (piece.name, piece.file)]


def _above(piece: Ran, loop: ast.stmt) -> Iterator[ast.stmt]:
    for node in piece.own:
        if isinstance(node, ast.stmt) and node.lineno < loop.lineno and not hasattr(node, "body"):
            yield node


def _read_below(piece: Ran, loop: ast.stmt) -> set[str]:
    """Names that the function reads below the loop."""
    end = loop.end_lineno or loop.lineno
    return {name for node in piece.own if isinstance(node, ast.stmt) and node.lineno > end for name in loaded(node)}
