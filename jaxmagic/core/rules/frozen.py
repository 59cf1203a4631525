"""What Python did once, while tracing, and the compiled program repeats for ever: random numbers, clocks, files."""

import ast
from collections.abc import Iterator

from jaxmagic.core.rules import rekeyed
from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.equations import equations, place_of
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.core.rules.scopes import around, assigned, attribute_values, binder
from jaxmagic.core.source.nodes import path_to, stored
from jaxmagic.records import Compiled, Equation, Evidence, Program, Span

_DEEPEST = 5
"""Names that a value is followed through."""
_RANDOM = ("numpy.random.", "random.", "secrets.")
_NO_DRAW = (
    "seed",
    "default_rng",
    "RandomState",
    "Generator",
    "get_state",
    "set_state",
    "getstate",
    "setstate",
    "Random",
)
_GENERATORS = {
    "numpy.random.default_rng": "numpy.random.Generator",
    "numpy.random.RandomState": "numpy.random.RandomState",
    "random.Random": "random.Random",
}
_CLOCK, _FILE = "the clock", "a file"
_READS = {
    "time": {"time", "perf_counter", "monotonic", "time_ns", "process_time", "perf_counter_ns", "ctime", "localtime"},
    "datetime.datetime": {"now", "today", "utcnow"},
    "datetime.date": {"today"},
    "uuid": {"uuid1", "uuid4"},
    "os": {"getenv", "urandom", "getpid"},
    "os.environ": {"get"},
    "numpy": {"load", "loadtxt", "genfromtxt", "fromfile"},
    "pandas": {"read_csv", "read_parquet", "read_json", "read_excel", "read_pickle"},
}
_WHAT = {"time": _CLOCK, "datetime.datetime": _CLOCK, "datetime.date": _CLOCK, "uuid": "a fresh identifier"}
_WHAT |= {"os": "the environment", "os.environ": "the environment", "numpy": _FILE, "pandas": _FILE}
_NAMES = {_CLOCK: "now", "a fresh identifier": "identifier", "the environment": "setting"}
"""What to call the argument that takes the place of what is read."""
_READING_METHODS = ("read_text", "read_bytes")


def _calls(observed: Observed) -> Iterator[tuple[Ran, ast.Call, str]]:
    """Calls in functions whose Python code ran once for a compiled program, by their full names."""
    for piece in ran(observed):
        if piece.compiled:
            for node in piece.own:
                if isinstance(node, ast.Call) and (name := _full_name(observed, piece, node.func)):
                    yield piece, node, name


def _full_name(observed: Observed, piece: Ran, function: ast.expr) -> str:
    """As its imports say, or of a method by what made its object: `self.rng.normal`."""
    name = dotted(observed, piece, function)
    if name or not isinstance(function, ast.Attribute):
        return name
    kinds = {_GENERATORS.get(dotted(observed, home, made.func), "") for home, made in _made(piece, function.value)}
    return f"{kinds.pop()}.{function.attr}" if len(kinds) == 1 and "" not in kinds else ""


def _made(piece: Ran, owner: ast.expr) -> Iterator[tuple[Ran, ast.Call]]:
    """The calls that gave a variable, or an attribute of `self`, its values."""
    match owner:
        case ast.Name(id=name):
            home = binder(piece, name) or piece
            values = assigned(home, name)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            home = Ran(piece.file, ast.Module([], []), "<module>", ())
            classes = [node for node in around(piece) if isinstance(node, ast.ClassDef)]
            values = attribute_values(classes[0], name) if classes else []
        case _:
            return
    yield from ((home, value) for value in values if isinstance(value, ast.Call))


@on_cell("frozen-random", "wrong-result", "numpy.random or random inside a compiled function: one draw for ever")
def frozen_random(observed: Observed) -> Iterator[Cause]:
    """`np.random` and `random` know nothing of tracing: under jit they draw once, while the function is traced, and
    the number stands in the program as a constant. Every later call gets the same; seeding changes nothing.
    `jax.random` with a key as argument draws anew for every key.

    Sure: the call is in the source of a function that was traced for jit, scan or the like. The drawn number is
    read from the program where it is a literal there. A function that makes its generator of a constant seed gives
    the same at every call in any case, and is not reported.
    """
    draws: dict[int, list[tuple[Ran, ast.Call, str]]] = {}
    for piece, node, name in _calls(observed):
        drawn = name.startswith(_RANDOM) and name.rpartition(".")[2] not in _NO_DRAW
        if drawn and not _is_seeded_here(observed, piece, node):
            draws.setdefault(id(piece.node), []).append((piece, node, name))
    for found in draws.values():
        piece = found[0][0]
        calls = [node for _, node, _ in found]
        fix, replaces = rekeyed.with_key(piece, {id(node): name for _, node, name in found}, calls)
        literals = [text for node in calls for text in _literals(observed.compiled, piece.span_of(node))]
        baked = f" The program holds {', '.join(dict.fromkeys(literals))}." if literals else ""
        yield Cause(
            title=f"`{piece.text(calls[0])}` draws once, when `{piece.name}` is traced",
            explanation="NumPy's and Python's random numbers are ordinary values while a function is traced: the draw "
            f"becomes a constant of the compiled program, the same at every call.{baked} Take a key as argument and "
            "use `jax.random`.",
            span=piece.span_of(calls[0]),
            evidence=tuple(Evidence(f"`{piece.text(node)}` is drawn here", piece.span_of(node)) for node in calls),
            fix=fix,
            replaces=replaces,
        )


def _is_seeded_here(observed: Observed, piece: Ran, node: ast.Call) -> bool:
    """Whether the function makes the generator itself, of a constant: without jit it gives the same at every call."""
    made = [call for _, call in _made(piece, node.func.value)] if isinstance(node.func, ast.Attribute) else []
    seeds = (
        made if made else [each for each in piece.own if isinstance(each, ast.Call) and _seeds(observed, piece, each)]
    )
    return bool(seeds) and all(
        call in piece.own and call.args and isinstance(call.args[0], ast.Constant) for call in seeds
    )


def _seeds(observed: Observed, piece: Ran, call: ast.Call) -> bool:
    return dotted(observed, piece, call.func) in ("numpy.random.seed", "random.seed")


def _literals(compiled: tuple[Compiled, ...], span: Span) -> list[str]:
    """Literals among the inputs of the equations of that line."""
    programs = [trace.program for one in compiled for trace in one.traces if trace.program is not None]
    return [text for program in programs for equation in _at(program, span) for text in equation.ins if _is_text(text)]  # pyright: ignore[reportReturnType]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _at(program: Program, span: Span) -> Iterator[Equation]:
    for equation in equations(program.root):
        frame = place_of(program, equation)
        if frame is not None and frame.file == span.file and frame.line <= span.line <= frame.end_line:
            yield equation


@on_cell("frozen-read", "wrong-result", "a clock, the environment or a file is read inside a compiled function")
def frozen_read(observed: Observed) -> Iterator[Cause]:
    """A clock, an identifier, an environment variable or a file that a compiled function reads is read once, while
    it is traced; the program keeps what it found. Read it outside and pass it as an argument.

    Not sure: reading a table once may be just what is meant. What only a print or a log gets is not reported.
    """
    for piece in ran(observed):
        for node in piece.own if piece.compiled else ():
            what = _read(observed, piece, node)
            if what and _is_used(piece, node):
                assert isinstance(node, ast.expr)
                fix, replaces = rekeyed.with_argument(piece, node, _NAMES[what]) if what in _NAMES else ("", None)
                yield Cause(
                    title=f"`{piece.text(node)}` reads {what} once, when `{piece.name}` is traced",
                    explanation="The compiled program keeps the value from then. That may be meant; if not, "
                    "read it outside and pass it as an argument.",
                    span=piece.span_of(node),
                    fix=fix,
                    replaces=replaces,
                    sure=False,
                )


def _read(observed: Observed, piece: Ran, node: ast.AST) -> str:
    """What an expression reads that may be another thing the next time; empty for others."""
    match node:
        case ast.Subscript(value=holder, ctx=ast.Load()):
            return _WHAT["os"] if dotted(observed, piece, holder) == "os.environ" else ""
        case ast.Call(func=ast.Name(id="open")) if _is_built_in(observed, "open"):
            return _FILE
        case ast.Call(func=function):
            module, _, name = dotted(observed, piece, function).rpartition(".")
            if name in _READS.get(module, ()):
                return _WHAT[module] if name != "urandom" else "the system's random numbers"
            return _FILE if isinstance(function, ast.Attribute) and function.attr in _READING_METHODS else ""
    return ""


def _is_built_in(observed: Observed, name: str) -> bool:
    """Whether a name means Python's own function, which IPython has one of its own for."""
    value = observed.namespace.get(name)
    return value is None or (getattr(value, "__module__", None) or "").startswith(("IPython", "_io", "io"))


def _is_used(piece: Ran, node: ast.AST, depth: int = 0) -> bool:
    """Whether a value goes into anything else than a print or a log, by itself or under a name."""
    statement = next((each for each in path_to(piece.node, node) if isinstance(each, ast.stmt)), None)
    match statement:
        case ast.Expr(value=ast.Call(func=function)) if node in ast.walk(statement.value):
            return not isinstance(function, ast.Name | ast.Attribute) or not _only_tells(function)
        case ast.Assign(targets=targets) if depth < _DEEPEST:
            names = set(stored(*targets))
            reads = [each for each in piece.own if isinstance(each, ast.Name) and each.id in names]
            loads = [each for each in reads if isinstance(each.ctx, ast.Load)]
            return not all(isinstance(target, ast.Name) for target in targets) or any(
                _is_used(piece, each, depth + 1) for each in loads
            )
    return True


def _only_tells(function: ast.Name | ast.Attribute) -> bool:
    name = function.id if isinstance(function, ast.Name) else function.attr
    return name in ("print", "debug", "info", "warning", "log", "write", "append", "display")
