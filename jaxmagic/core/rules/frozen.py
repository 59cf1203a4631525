"""What Python did once, while tracing, and the compiled program repeats for ever: random numbers, clocks, files."""

import ast
from collections.abc import Iterator

from jaxmagic.core.rules import rekeyed
from jaxmagic.core.rules.catalogue import Cause, on_cell
from jaxmagic.core.rules.contexts import Observed
from jaxmagic.core.rules.ran import Ran, dotted, ran
from jaxmagic.records import Compiled, Equation, Evidence, Program, Region, Span

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
_READS = {
    "time.time": "the clock",
    "time.perf_counter": "the clock",
    "time.monotonic": "the clock",
    "time.time_ns": "the clock",
    "datetime.datetime.now": "the clock",
    "datetime.datetime.today": "the clock",
    "datetime.date.today": "the clock",
    "uuid.uuid1": "a fresh identifier",
    "uuid.uuid4": "a fresh identifier",
    "os.getenv": "the environment",
    "os.environ.get": "the environment",
    "os.urandom": "the system's random numbers",
    "numpy.load": "a file",
    "numpy.loadtxt": "a file",
}


def _calls(observed: Observed) -> Iterator[tuple[Ran, ast.Call, str]]:
    """Calls in functions whose Python code ran once for a compiled program, by their full names."""
    for piece in ran(observed):
        if piece.compiled:
            for node in piece.own:
                if isinstance(node, ast.Call) and (name := dotted(observed, piece, node.func)):
                    yield piece, node, name


@on_cell("frozen-random", "wrong-result", "numpy.random or random inside a compiled function: one draw for ever")
def frozen_random(observed: Observed) -> Iterator[Cause]:
    """`np.random` and `random` know nothing of tracing: under jit they draw once, while the function is traced, and
    the number stands in the program as a constant. Every later call gets the same; seeding changes nothing.
    `jax.random` with a key as argument draws anew for every key.

    Sure: the call is in the source of a function that was traced for jit, scan or the like. The drawn number is
    read from the program where it is a literal there.
    """
    draws: dict[int, list[tuple[Ran, ast.Call, str]]] = {}
    for piece, node, name in _calls(observed):
        if name.startswith(_RANDOM) and name.rpartition(".")[2] not in _NO_DRAW:
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


def _literals(compiled: tuple[Compiled, ...], span: Span) -> list[str]:
    """Literals among the inputs of the equations of that line."""
    programs = [trace.program for one in compiled for trace in one.traces if trace.program is not None]
    return [text for program in programs for equation in _at(program, span) for text in equation.ins if _is_text(text)]  # pyright: ignore[reportReturnType]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _at(program: Program, span: Span) -> Iterator[Equation]:
    for equation in _equations(program.root):
        frame = program.frames[equation.frame].span if 0 <= equation.frame < len(program.frames) else None
        if frame is not None and frame.file == span.file and frame.line <= span.line <= frame.end_line:
            yield equation


def _equations(region: Region) -> Iterator[Equation]:
    for equation in region.equations:
        yield equation
        for inner in equation.regions:
            yield from _equations(inner)


@on_cell("frozen-read", "wrong-result", "a clock, the environment or a file is read inside a compiled function")
def frozen_read(observed: Observed) -> Iterator[Cause]:
    """A clock, an identifier, an environment variable or a file that a compiled function reads is read once, while
    it is traced; the program keeps what it found. Read it outside and pass it as an argument.

    Possible only: reading a table once may be just what is meant.
    Not sure: whether the value reaches the program is not looked at.
    """
    for piece, node, name in _calls(observed):
        if name in _READS:
            yield Cause(
                title=f"`{piece.text(node)}` reads {_READS[name]} once, when `{piece.name}` is traced",
                explanation="The compiled program keeps the value from then, if it uses it. That may be meant; if not, "
                "read it outside and pass it as an argument.",
                span=piece.span_of(node),
                sure=False,
            )
