"""Which random keys a piece of code consumes, in the order it runs: itself, and by functions that it calls."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.functions_called import function_behind
from jaxmagic.core.rules.handed_back import Kept, Origins, kept, reached, rooted, spelled, stored_elsewhere
from jaxmagic.core.rules.key_libraries import library_draw
from jaxmagic.core.rules.ran import Ran, dotted
from jaxmagic.core.rules.stores import root_name
from jaxmagic.core.source.nodes import bound_by, loaded, stored

_NOT_A_USE = ("key", "PRNGKey", "fold_in", "wrap_key_data", "key_data", "clone", "key_impl", "default_prng_impl")
_DEEPEST = 4
"""Functions inside of functions that a key is followed into."""
LOOPS = ("scan", "while", "fori_loop")
"""How the transformations of a compiled loop's body begin."""
COMPARED = ("inference", "prediction")
"""What is done for several models with one key, so that they differ in nothing else."""
_COMPREHENSIONS = ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp


@dataclass(frozen=True, eq=False)
class Use:
    """A call that consumes a key, and the code that it stands in."""

    piece: Ran
    node: ast.Call
    key: ast.expr
    """The key as the call spells it: `key`, `keys["w"]`, `self.key`."""
    function: Ran | None = None
    """The user's function that is called and draws; None for a call of a library's."""
    drawn: "Use | None" = None
    """What consumes it in there."""
    shared: bool = False
    """A model gets it as one of its `rngs`, which may well be the same for two evaluations."""
    kind: str = ""
    """What a library draws it for, where it is one of those that know more than `jax.random`."""
    back: "Returned | None" = None
    """The function hands the key back as it was."""
    folded: "Folded | None" = None
    """A loop makes the key anew in every pass, and always the same."""

    @property
    def last(self) -> "Use":
        """The call of a library's that the key ends in."""
        return self.drawn.last if self.drawn is not None else self

    @property
    def arguments(self) -> list[ast.expr]:
        """What is passed beside the key."""
        given = [*self.node.args, *(keyword.value for keyword in self.node.keywords)]
        return [each for each in given if each is not self.key]


@dataclass(frozen=True, eq=False)
class Folded:
    """`k = fold_in(key, 0)` in a loop, where neither the key nor the number changes."""

    loop: ast.For | ast.While
    made: ast.Call


@dataclass(frozen=True, eq=False)
class Returned:
    """Where a key comes back from a function that drew from it."""

    statement: ast.Assign
    """It binds the key again."""
    kept: Kept


def path_of(node: ast.AST) -> str:
    """`key`, `self.key` or `keys["w"]` as text; empty for what may be another key each time."""
    return spelled(node, variable=True)


def library_use(observed: Observed, piece: Ran, node: ast.AST) -> ast.expr | None:
    """The key that a call of `jax.random`, or a layer of Equinox's that is made, consumes."""
    if not isinstance(node, ast.Call):
        return None
    name = dotted(observed, piece, _mapped(observed, piece, node.func))
    keyword = next((each.value for each in node.keywords if each.arg == "key"), None)
    if name.startswith("jax.random.") and name.rpartition(".")[2] not in _NOT_A_USE:
        return node.args[0] if node.args else keyword
    return keyword if name.startswith("equinox.nn.") else None


def _mapped(observed: Observed, piece: Ran, function: ast.expr) -> ast.expr:
    """`jax.random.normal` of `jax.vmap(jax.random.normal)`, which consumes an array of keys."""
    match function:
        case ast.Call(func=transform, args=[inner, *_]):
            known = dotted(observed, piece, transform) in ("jax.vmap", "jax.jit")
            return _mapped(observed, piece, inner) if known else function
    return function


def _rngs(node: ast.Call) -> list[ast.expr]:
    """`key` of `apply(variables, x, rngs={"dropout": key})`."""
    given = [each.value for each in node.keywords if each.arg == "rngs"]
    return [value for each in given if isinstance(each, ast.Dict) for value in each.values]


def is_split(observed: Observed, piece: Ran, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and dotted(observed, piece, node.func) == "jax.random.split"


@dataclass
class Walk:
    """Keys consumed on the way to a statement, with the call that did."""

    piece: Ran
    observed: Observed
    used: dict[str, Use] = field(default_factory=dict)
    depth: int = 0
    known: dict[ast.AST, Mapping[str, Use]] = field(default_factory=dict)
    """What functions consume that were looked at before."""

    def through(self, block: list[ast.stmt]) -> Iterator[tuple[Use, Use]]:
        """Pairs of calls that consume the same key, in the order they run."""
        for statement in block:
            yield from self._statement(statement)

    def _statement(self, statement: ast.stmt) -> Iterator[tuple[Use, Use]]:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self._forget(statement.name)
            return
        yield from self._uses(statement)
        back = dict(self._given_back(statement))
        yield from ((self.used[path], use) for path, use in back.items() if path in self.used and self.used[path].back)
        for target in bound_by(statement):
            self._forget_target(target)
        self.used |= back
        if isinstance(statement, ast.For | ast.While):
            yield from self._loop(statement)
        elif isinstance(statement, ast.If):
            yield from self._either([statement.body, statement.orelse])
        elif isinstance(statement, ast.Match):
            yield from self._either([case.body for case in statement.cases])
        else:
            for block in (getattr(statement, name, []) for name in ("body", "orelse", "finalbody")):
                yield from self.through(block)

    def _forget_target(self, target: ast.expr) -> None:
        for name in stored(target):
            self._forget(name)
        for node in ast.walk(target):
            if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
                self._forget(path_of(node) or root_name(node))

    def _forget(self, path: str) -> None:
        """Drops a key that is bound anew, and those that are parts of it or are found by it."""
        for known, use in list(self.used.items()):
            if known == path or known.startswith((f"{path}.", f"{path}[")) or path in loaded(use.key):
                del self.used[known]

    def _uses(self, statement: ast.stmt) -> Iterator[tuple[Use, Use]]:
        if isinstance(statement, ast.Expr) and is_split(self.observed, self.piece, statement.value):
            return  # its result is dropped, which is a finding of its own
        for node in _evaluated(statement):
            if isinstance(node, _COMPREHENSIONS):
                yield from self._comprehension(node)
            elif isinstance(node, ast.Call):
                for path, use in self.of_call(node):
                    first = self.used.setdefault(path, use)
                    apart = first.node is node or _are_alternatives(statement, first.node, node)
                    apart = apart or (first.back is not None and _is_same_function(first, use))
                    apart = apart or self._follows(statement, node, path)
                    if not apart and not _is_repeated(first, use):
                        yield first, use

    def _follows(self, statement: ast.stmt, node: ast.Call, path: str) -> bool:
        """`(key,) = split(key, 1)` gives the next key of a sequence, each of which is drawn from before."""
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=[target])], value=value) if value is node:
                return path_of(target) == path and is_split(self.observed, self.piece, node)
        return False

    def of_call(self, node: ast.Call) -> Iterator[tuple[str, Use]]:
        """The keys that one call consumes, by their paths."""
        key = library_use(self.observed, self.piece, node)
        if key is not None:
            if path := path_of(key):
                yield path, Use(self.piece, node, key)
        elif (drawn := library_draw(self.observed, self.piece, node)) is not None:
            if path := path_of(drawn[0]):
                yield path, Use(self.piece, node, drawn[0], kind=drawn[1])
        elif self.depth < _DEEPEST:
            yield from self._of_function(node)
        for key in _rngs(node):
            if path := path_of(key):
                yield path, Use(self.piece, node, key, shared=True)

    def _of_function(self, node: ast.Call) -> Iterator[tuple[str, Use]]:
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if not any(path_of(each) for each in given) and owner is None:
            return
        function = function_behind(self.observed, self.piece, node.func)
        if function is None or function.node is self.piece.node:
            return
        passed = _passed(node, function, owner)
        for inner, use in self._consumed(function).items() if passed else ():
            root, rest = rooted(inner)
            key = passed.get(root)
            if key is not None and (path := path_of(key)):
                spelled = ast.parse(f"{path}{rest}", mode="eval").body if rest else key
                yield f"{path}{rest}", Use(self.piece, node, spelled, function, use)

    def _given_back(self, statement: ast.stmt) -> Iterator[tuple[str, Use]]:
        """Keys that a function draws from and hands back as they were: `params, key = step(params, key, batch)`."""
        match statement:
            case ast.Assign(targets=[target], value=ast.Call() as call) if self.depth == 0:
                function = function_behind(self.observed, self.piece, call.func)
            case _:
                return
        if function is None or function.node is self.piece.node or not isinstance(function.node, ast.FunctionDef):
            return
        results = kept(function, self.observed.namespace)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        passed = _passed(call, function, owner) if results else {}
        for parameter, rest, use in self._drawn(function) if passed else ():
            for one in results:
                if one.parameter == parameter and parameter in passed and one.holds(rest):
                    path = reached(target, one.place + rest[len(one.rest) :])
                    if path and path == reached(passed[parameter], rest):
                        key = ast.parse(path, mode="eval").body
                        yield path, Use(self.piece, call, key, function, use, back=Returned(statement, one))

    def _drawn(self, function: Ran) -> Iterator[tuple[str, str, Use]]:
        """The parameters of a function, or parts of them, that it draws from, by whatever names."""
        origins = Origins(function)
        for piece in (function, *_inside(function)):
            own = piece.local if piece is not function else set()
            inner = Walk(piece, self.observed, depth=self.depth + 1, known=self.known)
            for node in piece.own:
                for path, use in inner.of_call(node) if isinstance(node, ast.Call) else ():
                    origin = origins.of(path) if rooted(path)[0] not in own else None
                    if origin is not None:
                        yield *origin, use

    def _consumed(self, function: Ran) -> Mapping[str, Use]:
        if function.node not in self.known:
            self.known[function.node] = {}  # of a function that calls itself
            walk = Walk(function, self.observed, depth=self.depth + 1, known=self.known)
            self.known[function.node] = consumed(walk)
        return self.known[function.node]

    def _comprehension(self, node: ast.expr) -> Iterator[tuple[Use, Use]]:
        """A key from outside that the element uses is used again in every pass."""
        assert isinstance(node, _COMPREHENSIONS)
        bound = set(stored(*(each.target for each in node.generators)))
        for call in ast.walk(node):
            if isinstance(call, ast.Call):
                for path, use in self.of_call(call):
                    self.used.setdefault(path, use)
                    once = bound & loaded(use.key) or call in ast.walk(node.generators[0].iter)
                    if not once and not _is_compared(use, bound):
                        yield use, use

    def _loop(self, loop: ast.For | ast.While) -> Iterator[tuple[Use, Use]]:
        """A key from outside that the body uses and does not replace is used again in the next pass."""
        before = dict(self.used)
        yield from self.through(loop.body)
        bound = {*stored(*bound_by(loop), *loop.body), *_all_paths_stored(loop)}
        alike = dict(self._same_in_every_pass(loop, bound))
        stays = not isinstance(loop.body[-1], ast.Break | ast.Return)
        for path, use in list(self.used.items()):
            # A function may be meant to get the same key each time, to evaluate a model for one.
            changing = bound - alike.keys() if use.function is None else bound
            renewed = path in changing or changing & loaded(use.key)
            if use.back is not None:
                renewed = rooted(path)[0] in {
                    *stored_elsewhere(loop.body, use.back.statement),
                    *stored(*bound_by(loop)),
                }
            if path not in before and not renewed and stays and _counts_in_a_loop(loop, use):
                again = replace(use, folded=Folded(loop, alike[path])) if path in alike else use
                yield again, again

    def _same_in_every_pass(self, loop: ast.For | ast.While, bound: set[str]) -> Iterator[tuple[str, ast.Call]]:
        """Keys that are folded with the same number in each pass, with the call that does."""
        assigned = [node for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        for statement in loop.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                    folded = dotted(self.observed, self.piece, call.func) == "jax.random.fold_in"
                    once = sum(each.id == name for each in assigned) == 1
                    if folded and once and not bound & loaded(call):
                        yield name, call

    def _either(self, blocks: list[list[ast.stmt]]) -> Iterator[tuple[Use, Use]]:
        """Blocks of which one runs: what one of them used is used after it, unless it leaves."""
        before, after = self.used, {}
        for block in blocks:
            self.used = dict(before)
            yield from self.through(block)
            leaves = bool(block) and isinstance(block[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)
            after |= {} if leaves else self.used
        self.used = after


def consumed(walk: Walk) -> Mapping[str, Use]:
    """The parameters of a function, and keys inside of them, that a call of it draws from: `key`, `self.key`."""
    function, found = walk.piece, {}
    given = {arg.arg for arg in ast.walk(arguments_of(function)) if isinstance(arg, ast.arg)}
    written = {path for node in function.own for path in _paths_stored(node)}
    for piece in (function, *_inside(function)):
        own = piece.local if piece is not function else set()
        inner = Walk(piece, walk.observed, depth=walk.depth, known=walk.known)
        for node in piece.own:
            for path, use in inner.of_call(node) if isinstance(node, ast.Call) else ():
                root = rooted(path)[0]
                if root in given and root not in own and path not in written:
                    found.setdefault(path, use)
    return {path: use for path, use in found.items() if not _renewed_before(function, path, use)}


def _inside(function: Ran) -> Iterator[Ran]:
    """The functions that are defined in a function, which read its parameters."""
    for node in ast.walk(function.node):
        if isinstance(node, ast.FunctionDef | ast.Lambda) and node is not function.node:
            yield Ran(function.file, node, getattr(node, "name", "<lambda>"), ())


def arguments_of(function: Ran) -> ast.arguments:
    assert not isinstance(function.node, ast.Module)
    return function.node.args


def _renewed_before(function: Ran, path: str, use: Use) -> bool:
    """Whether a parameter was bound anew above the line that draws from it."""
    stores = [node for node in function.own if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return any(node.id == path and node.lineno < use.node.lineno for node in stores)


def _paths_stored(node: ast.AST) -> Iterator[str]:
    """Attributes and items that are assigned: a method that renews `self.key` hands out another each time."""
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
        yield path_of(node)


def _all_paths_stored(loop: ast.AST) -> set[str]:
    return {path for node in ast.walk(loop) for path in _paths_stored(node)}


def _passed(node: ast.Call, function: Ran, owner: ast.expr | None) -> dict[str, ast.expr]:
    """The arguments of a call by the names of the parameters."""
    arguments = arguments_of(function)
    names = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args)]
    passed: dict[str, ast.expr] = {}
    if names[:1] == ["self"]:
        passed |= {"self": owner} if owner is not None and function.name != "__init__" else {}
        names = names[1:]
    if not any(isinstance(each, ast.Starred) for each in node.args):
        passed |= dict(zip(names, node.args, strict=False))
    return passed | {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}


def _are_alternatives(statement: ast.AST, first: ast.AST, again: ast.AST) -> bool:
    """Whether they are the two sides of a conditional expression."""
    for node in ast.walk(statement):
        if isinstance(node, ast.IfExp):
            sides = [set(ast.walk(node.body)), set(ast.walk(node.orelse))]
            if (first in sides[0] and again in sides[1]) or (first in sides[1] and again in sides[0]):
                return True
    return False


def _is_compared(use: Use, varied: set[str]) -> bool:
    """Whether a function runs for several settings with the same random numbers, as one compares prices or losses.

    What makes arrays of several sizes does not.
    """
    if use.last.kind in COMPARED:
        return True
    if use.function is None:
        return use.shared
    passed = _passed(use.node, use.function, None)
    settings = {name for name, value in passed.items() if varied & loaded(value)}
    return bool(settings) and not settings & set(_sizes(use.function))


def _sizes(function: Ran) -> Iterator[str]:
    """Names of a function that stand in the shape of something drawn: `n` and `m` in `normal(key, (n, m))`."""
    for node in function.own:
        if isinstance(node, ast.Call) and len(node.args) > 1 and path_of(node.args[0]):
            for part in node.args[1].elts if isinstance(node.args[1], ast.Tuple) else node.args[1:2]:
                yield from loaded(part) if not isinstance(part, ast.Attribute) else ()


def _is_repeated(first: Use, again: Use) -> bool:
    """Whether it is one function evaluated twice for the same randomness: a loss and its gradient, jit and no jit.

    A function that gets nothing but the key and sizes makes things of its own, and so do methods with their
    object's key.
    """
    if first.last.shared or again.last.shared:
        return True
    if first.last.kind in COMPARED and first.last.kind == again.last.kind:
        return True
    if not _is_same_function(first, again):
        return False
    if not any(first.key is each for each in (*first.node.args, *(word.value for word in first.node.keywords))):
        return False
    sizes = all(_is_size(each) for use in (first, again) for each in use.arguments)
    return not (sizes and _is_kept(first) and _is_kept(again))


def _is_same_function(first: Use, again: Use) -> bool:
    return first.function is not None and again.function is not None and first.function.node is again.function.node


def _is_size(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not isinstance(node.value, float)


def _is_kept(use: Use) -> bool:
    """Whether what a call gives is bound to a name, as what is only timed or printed is not."""
    return any(isinstance(node, ast.Assign) and use.node in ast.walk(node.value) for node in use.piece.own)


def _counts_in_a_loop(loop: ast.For | ast.While, use: Use) -> bool:
    """Whether passes that draw the same are a mistake: a function may be timed, or run for several settings."""
    if use.last.kind in COMPARED:
        return False
    if (use.function is None and not use.shared) or use.back is not None:
        return True
    for node in ast.walk(loop):
        match node:
            case ast.Assign(targets=targets, value=value) if use.node in ast.walk(value):
                return bool(set(stored(*targets)) & loaded(use.node))
            case ast.AugAssign(value=value) if use.node in ast.walk(value):
                return not _is_compared(use, set(stored(*bound_by(loop))))
            case ast.Call(func=ast.Attribute(attr="append" | "extend"), args=[value]) if use.node in ast.walk(value):
                return not _is_compared(use, set(stored(*bound_by(loop))))
    return False


def _evaluated(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions a statement evaluates itself, without its blocks, lambdas and what is inside comprehensions."""
    blocks = ast.stmt | ast.match_case | ast.excepthandler
    waiting: list[ast.AST] = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, blocks)]
    while waiting:
        node = waiting.pop(0)
        if not isinstance(node, ast.Lambda):
            yield node
            waiting += ast.iter_child_nodes(node) if not isinstance(node, _COMPREHENSIONS) else ()
