"""Loops and branches of JAX's over an Equinox module, rewritten so that only its arrays go in and out."""

import ast

from jaxmagic.core.failures.sites import Site
from jaxmagic.core.rules.calls import Fix, argument
from jaxmagic.core.rules.rewrite import alias, call, copied, expression, indented, replaced, taking, text
from jaxmagic.core.source.nodes import loaded, name_called, stored

LOOPS = ("scan", "fori_loop", "while_loop")

_INITIAL = {"scan": (1, "init"), "fori_loop": (3, "init_val"), "while_loop": (2, "init_val")}
_CALLED = {"scan": [(0, "f")], "fori_loop": [(2, "body_fun")], "while_loop": [(0, "cond_fun"), (1, "body_fun")]}


def with_arrays_carried(site: Site, node: ast.Call, given: ast.expr) -> Fix:
    """The statement of a loop with its carry, or the rows of a scan, taken apart before and put together inside."""
    name = name_called(node)
    carry = argument(node, *_INITIAL[name])
    functions = [argument(node, *place) for place in _CALLED[name]]
    if site.statement is None or carry is None or any(each is None for each in functions):
        return "", None
    if any(part is given for part in ast.walk(carry)):
        called = [each for each in functions if each is not None]
        return _Rewritten(site, node, site.statement).carried(name, carry, called), site.span_of(site.statement)
    xs = argument(node, 2, "xs") if name == "scan" else None
    if xs is None or functions[0] is None:
        return "", None
    return _Rewritten(site, node, site.statement).in_rows(xs, functions[0]), site.span_of(site.statement)


class _Rewritten:
    """A statement around a loop, and the names that its new form uses."""

    def __init__(self, site: Site, node: ast.Call, statement: ast.stmt) -> None:
        self.site, self.node, self.statement = site, node, statement
        self.eqx = alias(site.scope, "equinox")
        taken = loaded(site.tree or statement) | set(stored(site.tree or statement))
        self.arrays, self.static = (_free(name, taken) for name in ("arrays", "static"))
        self.is_array = expression(f"{self.eqx}.is_array")

    def carried(self, name: str, carry: ast.expr, functions: list[ast.expr]) -> str:
        lines = [f"{self.arrays}, {self.static} = {self._partition(self._of_arrays(carry))}"]
        swaps: dict[int, ast.AST] = {id(carry): ast.Name(self.arrays)}
        result: ast.AST = self.whole(self.arrays)
        if name == "scan":
            lines.append(self._step(functions[0]))
            swaps[id(functions[0])] = ast.Name("step_arrays")
            lines.append(f"{self.arrays}, ys = {text(copied(self.node, swaps))}")
            result = ast.Tuple([result, ast.Name("ys")])
        else:
            swaps |= {id(each): self._wrapped(each, "i" if name == "fori_loop" else "") for each in functions}
            if name == "while_loop":
                swaps[id(functions[0])] = self._wrapped(functions[0], "", filtered=False)
            lines.append(f"{self.arrays} = {text(copied(self.node, swaps))}")
        return "\n".join([*lines, text(replaced(self.statement, self.node, result))])

    def in_rows(self, xs: ast.expr, function: ast.expr) -> str:
        row = self._lambda(["carry", "row"], ast.Call(function, [ast.Name("carry"), self.whole("row")], []))
        changed = copied(self.statement, {id(function): row, id(xs): ast.Name(self.arrays)})
        return f"{self.arrays}, {self.static} = {self._partition(xs)}\n{text(changed)}"

    def whole(self, name: str) -> ast.Call:
        return call(f"{self.eqx}.combine", ast.Name(name), ast.Name(self.static))

    def _partition(self, value: ast.expr) -> str:
        return text(call(f"{self.eqx}.partition", value, self.is_array))

    def _of_arrays(self, carry: ast.expr) -> ast.expr:
        """The carry with its plain numbers as arrays, which they are from the first step on."""
        shown = carry.elts if isinstance(carry, ast.Tuple | ast.List) else []
        numbers = [each for each in shown if type(self.site.scope.get(each)) in (int, float, bool)]
        jnp = alias(self.site.scope, "jax.numpy")
        return copied(carry, {id(each): call(f"{jnp}.asarray", each) for each in numbers})

    def _step(self, body: ast.expr) -> str:
        called = text(copied(ast.Call(body, [self.whole(self.arrays), ast.Name("x")], [])))
        kept = text(call(f"{self.eqx}.filter", ast.Name("carry"), self.is_array))
        return f"def step_arrays({self.arrays}, x):\n" + indented(f"carry, y = {called}\nreturn {kept}, y")

    def _wrapped(self, function: ast.expr, index: str, *, filtered: bool = True) -> ast.expr:
        before = [index] if index else []
        called = ast.Call(function, [*map(ast.Name, before), self.whole(self.arrays)], [])
        body = call(f"{self.eqx}.filter", called, self.is_array) if filtered else copied(called)
        return self._lambda([*before, self.arrays], body)

    def _lambda(self, names: list[str], body: ast.expr) -> ast.Lambda:
        return taking(names, copied(body))


def _free(name: str, taken: set[str]) -> str:
    return name if name not in taken else f"{name}_of_carry"


def by_closure(site: Site, node: ast.Call) -> Fix:
    """`cond(p, f, g, model)` as `cond(p, lambda: f(model), lambda: g(model))`, where no branch returns the model."""
    listed = name_called(node) == "switch"
    if node.keywords or len(node.args) < (3 if listed else 4):
        return "", None
    branches = node.args[1] if listed else ast.Tuple(node.args[1:3])
    operands = node.args[2 if listed else 3 :]
    if not isinstance(branches, ast.List | ast.Tuple) or any(map(_hands_back, branches.elts)):
        return "", None
    bound: list[ast.expr] = [taking([], copied(ast.Call(each, operands, []))) for each in branches.elts]
    given = [ast.List(bound)] if listed else bound
    return text(copied(ast.Call(node.func, [node.args[0], *given], []))), site.span


def _hands_back(branch: ast.expr) -> bool:
    return isinstance(branch, ast.Lambda) and isinstance(branch.body, ast.Name)
