"""The vocabulary: what jaxmagic knows, as frozen data. No JAX object, no view, no behaviour beyond `str`."""

# pyright: reportGeneralTypeIssues=false
# msgspec lets a record inherit `frozen`; pyright knows that only of dataclasses.

from typing import Literal

import msgspec

PROTOCOL = 1
"""Raised whenever a record changes so that an older panel could not read it."""

_SHORT = {"float": "f", "bfloat": "bf", "complex": "c", "uint": "u", "int": "i"}


def short_dtype(dtype: str) -> str:
    """The name JAX prints in a jaxpr: `float32` is `f32`, `uint8` is `u8`, `bool` stays `bool`.

    Example:
        >>> short_dtype("float8_e4m3fn")
        'f8_e4m3fn'
    """
    for long, short in _SHORT.items():
        if dtype.startswith(long) and dtype[len(long) :][:1].isdigit():
            return short + dtype[len(long) :]
    return dtype


# The garbage collector need not track records, which can't form cycles: it would else take half of the time to
# convert a program of 100,000 equations.
class Record(msgspec.Struct, frozen=True, gc=False):
    """Base of every record: immutable, comparable, pickles, becomes JSON as it stands."""


# ------------------------------------------------------------------------------------------- source


class Span(Record):
    """A piece of source text, in the units of PEP 657."""

    file: str
    """`co_filename` of the code: a path, or a cell's name as IPython gave it."""
    line: int
    """First line, from 1."""
    column: int
    """Offset of the first character in its line, in UTF-8 bytes from 0."""
    end_line: int
    end_column: int


class Frame(Record):
    """One user frame on the stack when an equation was staged or an instruction was lowered."""

    span: Span
    function: str
    """Qualified name, `Model.__call__`."""
    parent: int = -1
    """Index of the calling user frame in the same table, -1 at the outermost."""


class Source(Record):
    """The text behind the spans of one file."""

    file: str
    label: str
    """What a person calls it: `cell [3]`, `model.py`."""
    cell: int | None
    """Execution count, for a notebook cell."""
    text: str
    first_line: int = 1
    """Line number of the first line of `text`, where only a part is kept."""


# ------------------------------------------------------------------------------------------- values


class Aval(Record):
    """An abstract value: what JAX knows of an array while tracing.

    Example:
        >>> str(Aval(shape=(3, 4), dtype="float32"))
        'f32[3,4]'
        >>> str(Aval(shape=(), dtype="float32", weak=True))
        'f32[]*'
    """

    shape: tuple[int | str, ...]
    """Sizes; a string for a symbolic dimension of `jax.export`."""
    dtype: str
    """Full name: `float32`, `key<fry>`."""
    weak: bool = False
    """Weakly typed, see https://docs.jax.dev/en/latest/type_promotion.html#weak-types"""
    sharding: str | None = None
    """Only when the array is laid out over more than one device: `P('x', None)`."""

    def __str__(self) -> str:
        sizes = ",".join(str(size) for size in self.shape)
        text = f"{short_dtype(self.dtype)}[{sizes}]{'*' if self.weak else ''}"
        return f"{text} {self.sharding}" if self.sharding else text


class Leaf(Record):
    """One array in a value: the value itself (path `""`) or a leaf of a pytree."""

    path: str
    """Access path from the variable, as Python spells it: `['w1']`, `.bias`, `[0]`."""
    aval: Aval
    kind: Literal["traced", "array", "numpy"]
    lanes: tuple[int, ...] = ()
    """Sizes of the vmapped axes around it, innermost first; `aval` is per example."""

    def __str__(self) -> str:
        lanes = "".join(f" ×{size} (vmap)" for size in self.lanes)
        return f"{'np ' if self.kind == 'numpy' else ''}{self.aval}{lanes}"


class Hint(Record):
    """Variable `name` had these arrays in it after a line, in one way of calling the function."""

    span: Span
    """The statement that stored it, the parameter, or the `return` statement."""
    function: str
    """Qualified name of the function; `<module>` for the cell itself."""
    call: int
    """Which `Call`, by `Call.id`."""
    name: str
    """A variable; `return` for what the function returned."""
    role: Literal["argument", "assigned", "returned"]
    leaves: tuple[Leaf, ...]
    hidden: int = 0
    """Further leaves beyond the cap."""
    times: int = 1
    """How often it was seen so; a line that only repeats itself is not watched to its end."""

    def __str__(self) -> str:
        if len(self.leaves) == 1 and not self.leaves[0].path and not self.hidden:
            return f"{self.name}: {self.leaves[0]}"
        inside = [f"{leaf.path}: {leaf}" for leaf in self.leaves]
        inside += [f"… {self.hidden:,} more"] if self.hidden else []
        return f"{self.name}: {{{', '.join(inside)}}}"


class Call(Record):
    """One way a user function ran: equal argument avals under equal transformations."""

    id: int
    function: str
    span: Span
    """The `def` (or lambda, or class body) of the function."""
    traced: bool
    """Whether its arrays were tracers."""
    transforms: tuple[str, ...] = ()
    """Innermost first: `jit step`, `vmap ×32`, `grad`, `scan body`, …"""
    times: int = 1


# ----------------------------------------------------------------------------------------- programs


class Variable(Record):
    """A variable of a jaxpr."""

    id: int
    """Unique in its program; equations name their inputs by it."""
    aval: Aval
    name: str = ""
    """The user's name for it, where one is known."""


class Equation(Record):
    """One equation of a jaxpr."""

    primitive: str
    ins: tuple[int | str, ...]
    """A variable's id, or a literal's text."""
    outs: tuple[Variable, ...]
    params: str = ""
    """Parameters as text, regions left out."""
    frame: int = -1
    """Innermost user frame in `Program.frames`, -1 where none is known."""
    name_stack: str = ""
    """`jax.named_scope` names and transformations: `transpose(jvp(mlp))`."""
    regions: tuple["Region", ...] = ()


class Region(Record):
    """A jaxpr inside a program: the whole, or the body of a jit, scan, while, cond branch, …"""

    kind: str
    """`jit`, `scan body`, `while condition`, `cond branch 0`, `custom_vjp`, …"""
    name: str
    """The function's name, where there is one."""
    inputs: tuple[Variable, ...]
    constants: tuple[Variable, ...]
    outputs: tuple[int | str, ...]
    equations: tuple[Equation, ...]
    hidden: int = 0
    """Equations dropped to keep the report small."""


class Expression(Record):
    """What an expression of the source evaluated to in a program."""

    span: Span
    avals: tuple[Aval, ...]
    """Of the arrays it gave, the last time it ran; several where one operation gave several."""
    variables: tuple[int, ...] = ()
    """What holds them in the program, by `Variable.id`."""


class Program(Record):
    """A jaxpr as a tree of regions."""

    root: Region
    frames: tuple[Frame, ...]
    equations: int
    """How many there are, in all regions, dropped ones included."""
    expressions: tuple[Expression, ...] = ()
    """In order of the source, found before equations were dropped."""


class Instruction(Record):
    """One operation in a listing."""

    line: int
    """Line in `Listing.text`, from 1."""
    name: str
    opcode: str
    frames: tuple[int, ...] = ()
    """Innermost user frames, in `Listing.frames`; several where operations were fused."""
    fused: int = 0
    """How many operations the kernel fuses, 0 if it is not a fusion."""


class Listing(Record):
    """The text of a program below the jaxpr, its operations linked to the source."""

    stage: Literal["stablehlo", "hlo"]
    text: str
    instructions: tuple[Instruction, ...]
    frames: tuple[Frame, ...]
    dropped: int = 0
    """Characters left out to keep the report small."""


# ----------------------------------------------------------------------------------------- compiled


class Argument(Record):
    """One input or output array of a compiled function, or a static argument."""

    name: str
    """Path from the signature: `params['w1']`, `x`, `args[0]`; `[0]` for outputs."""
    aval: Aval | None
    """None for a static argument."""
    static: str = ""
    """`repr` of a static argument, shortened."""
    donated: bool = False


class Change(Record):
    """One part of the cache key that differed from the nearest earlier trace."""

    what: Literal["shape", "dtype", "weak type", "sharding", "static value", "structure", "spelling", "option"]
    name: str
    """The argument's path, or the option's name: `jax_default_matmul_precision`."""
    before: str
    after: str

    def __str__(self) -> str:
        what = "option" if self.what == "option" else f"{self.what} of"
        return f"{what} {self.name}: {self.before} → {self.after}"


class Reason(Record):
    """Why JAX traced a function (again)."""

    kind: Literal["first call", "changed", "new function object", "cell run again", "cache cleared", "unknown"]
    changes: tuple[Change, ...] = ()
    text: str = ""
    """One sentence."""

    def __str__(self) -> str:
        return self.text or self.kind


class Cost(Record):
    """What XLA says of an executable; None where the backend does not say."""

    flops: float | None = None
    bytes_accessed: float | None = None
    """Bytes read and written per call."""
    argument_bytes: int | None = None
    output_bytes: int | None = None
    temporary_bytes: int | None = None
    peak_bytes: int | None = None
    """Largest device memory at once during a call."""
    code_bytes: int | None = None


class Constant(Record):
    """An array baked into a program."""

    name: str
    """The variable it came from, where known."""
    aval: Aval
    bytes: int


class Trace(Record):
    """One tracing of one function, and the program that came of it."""

    reason: Reason
    inputs: tuple[Argument, ...] = ()
    outputs: tuple[Argument, ...] = ()
    calls: int = 0
    """Calls in this recording that ran this program; for one traced inside of another, how often that one has it."""
    calls_exact: bool = True
    """False where there may have been more calls than these, or others of the same function's."""
    cached: bool = False
    """Traced before the recording began; the seconds below are then those of looking again."""
    span: Span | None = None
    """The call that caused it."""
    trace_s: float = 0.0
    lower_s: float = 0.0
    compile_s: float = 0.0
    run_s: float = 0.0
    """Wall seconds in the calls that went through Python, after compilation; 0 where not measured."""
    persistent_cache: bool = False
    """The executable came from the persistent compilation cache."""
    cost: Cost | None = None
    constants: tuple[Constant, ...] = ()
    program: Program | None = None
    stablehlo: Listing | None = None
    hlo: Listing | None = None


class Compiled(Record):
    """One jitted function and all that became of it in a recording."""

    id: int
    name: str
    kind: str
    """`jit`, `pmap`, `scan`, `while_loop`, `vmap`, `ahead of time`, `abstract` (make_jaxpr), …"""
    span: Span | None
    """Its definition."""
    parent: int | None = None
    """The compiled function it was traced inside of."""
    library: bool = False
    """Defined by a library, not by the user: views fold it away."""
    traces: tuple[Trace, ...] = ()

    @property
    def calls(self) -> int:
        return sum(trace.calls for trace in self.traces)

    @property
    def calls_exact(self) -> bool:
        return all(trace.calls_exact for trace in self.traces)


# ---------------------------------------------------------------------------------------- diagnosis

Severity = Literal["error", "wrong-result", "slow", "note"]


class Evidence(Record):
    """One fact that supports a finding."""

    text: str
    span: Span | None = None


class Finding(Record):
    """One diagnosis: the cause in one sentence, the facts, the way out."""

    rule: str
    """Stable kebab-case id, listed by `jaxmagic.rules()`."""
    severity: Severity
    span: Span | None
    title: str
    explanation: str
    evidence: tuple[Evidence, ...] = ()
    fix: str = ""
    """Code to paste, made from the user's own expression."""
    replaces: Span | None = None
    """The source that `fix` stands in for, None where it is to be added."""
    sure: bool = True
    """False: shown as "possible", and `explanation` says why it can't be sure."""
    times: int = 1


class Operand(Record):
    """An operand of the expression that failed."""

    name: str
    """Its source text: `x`, `params['w1'].T`."""
    span: Span | None
    aval: Aval | None
    provenance: tuple[Hint, ...] = ()
    """Where it came from, nearest first."""


class Failure(Record):
    """An exception, explained."""

    type: str
    """Qualified class name."""
    message: str
    span: Span | None
    """The failing expression in the innermost user frame."""
    frames: tuple[Frame, ...] = ()
    """User frames, innermost first, parents following."""
    operands: tuple[Operand, ...] = ()
    findings: tuple[Finding, ...] = ()
    phase: Literal["tracing", "compiling", "running", "python"] = "python"


# --------------------------------------------------------------------------------------------- taps


class Summary(Record):
    """Statistics of one array, reduced on the device. NaN and infinities are left out of the moments."""

    count: int
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    nan: int = 0
    posinf: int = 0
    neginf: int = 0
    zero: int = 0
    histogram: tuple[int, ...] = ()
    """Counts in equal bins from `min` to `max`."""


class TapEvent(Record):
    """One value that came ashore."""

    number: int
    """Order of arrival, from 0."""
    step: int
    """Which event of its series, from 0."""
    loop: tuple[int, ...] = ()
    """Iteration of each loop around it, outermost first."""
    lanes: tuple[int, ...] = ()
    """Sizes of the leading batch axes of `value`, outermost first."""
    device: int | None = None
    time: float = 0.0
    """Seconds since the cell began."""
    summary: Summary | None = None
    value: object = None
    """Nested lists, or None where only the summary was kept. Complex numbers are pairs; what JSON has no number for
    is `"nan"`, `"inf"` or `"-inf"`."""
    active: tuple[bool, ...] = ()
    """Which lanes were really running, the last axis fastest; empty where all were. A lane of a vmapped while-loop
    that has finished, or one that takes the other branch, is computed all the same."""
    alert: bool = False
    """The condition given with `--alert` or `--stop-when` held for it."""


class TapSeries(Record):
    """All events of one name."""

    name: str
    function: str
    span: Span | None
    aval: Aval
    gradient: bool = False
    events: tuple[TapEvent, ...] = ()
    total: int = 0
    """Events that came, kept or not."""
    dropped: int = 0
    transport: str = ""
    bytes: int = 0
    """Copied from device to host."""
    host_s: float = 0.0
    """Seconds spent on the host."""


class Printed(Record):
    """One line of output and where it came from."""

    text: str
    """As a terminal shows it in the end: without colours, and with what a carriage return had overwritten."""
    source: Literal["print", "jax.debug.print", "callback", "stderr"]
    span: Span | None = None
    """The call that printed; of `jax.debug.print` the line in the user's code, though that is not what runs then."""
    step: int | None = None
    """How often the same place had printed before, for the same lane."""
    lane: tuple[int, ...] = ()
    """Which example of each vmap around it, outermost first; empty where it can't be known, as in a program that was
    compiled before the cell ran."""
    number: int = 0
    traced: bool = False
    """Printed while tracing: it runs once per trace, not once per call."""


# -------------------------------------------------------------------------------------------- no jit


class Difference(Record):
    """One name in two runs of the same cell."""

    name: str
    verdict: str
    """`equal`, `rounding`, `re-association`, `NaN on one side`, `different`, …"""
    max_abs: float | None = None
    max_rel: float | None = None
    max_ulp: float | None = None
    left: Aval | None = None
    right: Aval | None = None


class Comparison(Record):
    """Two runs of the same cell."""

    left: str
    right: str
    verdict: str
    differences: tuple[Difference, ...] = ()
    first: Span | None = None
    """First line where values part."""
    left_s: float = 0.0
    """Wall seconds, tracing and compiling left out."""
    right_s: float = 0.0
    left_operations: int = 0
    """Programs sent to the device."""
    right_operations: int = 0


class RanInPython(Record):
    """A jitted function whose calls ran in Python, operation by operation."""

    name: str
    span: Span | None
    calls: int
    carrier: bool = False
    """It was not asked for, but contains a function that was."""


class StillTraced(Record):
    """What another transformation than jit traced while jit was off."""

    function: str
    transforms: tuple[str, ...]
    """Innermost first: `vmap ×32`, `grad`, `remat`, …"""
    span: Span
    """The definition of the function."""
    call: Span | None = None
    """The user's line that asked for it."""
    times: int = 1


class LineCost(Record):
    """What one line of the user's spent on operations that ran one by one."""

    span: Span
    operations: int
    """Programs sent to the device, most of them of a single operation."""
    seconds: float
    """Wall seconds since the operation before, wherever that was."""


class LineValue(Record):
    """A real value after a line, in one run of it: a call of the function, or a turn of the loop around the line."""

    span: Span
    function: str
    name: str
    """The variable, with the path of the array in it: `params['w1']`; `return` for what the function returned."""
    run: int
    """From 0."""
    kept: Literal["first", "last", "branch"]
    """Why this run is shown: one of the first three, of the last three, or it took other lines than those before."""
    aval: Aval
    text: str = ""
    """The value, where it is small."""
    summary: Summary | None = None
    lanes: tuple[int, ...] = ()
    """Sizes of the leading axes of `summary` and `text` that are vmapped; `aval` is per example."""


class NoJit(Record):
    """A cell that ran without jit, everywhere or for some functions."""

    scope: str
    """Where jit was off: `everywhere`, `only in f, g`, `everywhere but in f`."""
    lasting: bool = False
    """It stays off for later cells, until `%jaxnojit off`."""
    functions: tuple[RanInPython, ...] = ()
    operations: int = 0
    """Programs sent to the device one by one."""
    costs: tuple[LineCost, ...] = ()
    """Dearest line first."""
    values: tuple[LineValue, ...] = ()
    """In order of the source."""
    runs: int = 0
    """Runs of lines whose values were looked at; those not kept are dropped."""
    traced: tuple[StillTraced, ...] = ()
    unreached: tuple[str, ...] = ()
    """Functions asked for that did not run in Python, and why: one sentence each."""
    stopped: str = ""
    """Where the budget ended."""


# ------------------------------------------------------------------------------------------- report


class Versions(Record):
    jaxmagic: str
    jax: str
    jaxlib: str
    python: str


class Seconds(Record):
    """Wall seconds of the recording, and where they went."""

    total: float = 0.0
    trace: float = 0.0
    lower: float = 0.0
    compile: float = 0.0
    tool: float = 0.0
    """Spent by jaxmagic itself, after the cell ended."""


class Report(Record):
    """What a magic returns."""

    mode: Literal["jaxtrace", "jaxtap", "jaxnojit"]
    state: Literal["running", "finished", "failed", "interrupted"]
    title: str
    """The magic's line as typed."""
    versions: Versions
    backend: str = ""
    devices: tuple[str, ...] = ()
    seconds: Seconds = Seconds()
    sources: tuple[Source, ...] = ()
    calls: tuple[Call, ...] = ()
    hints: tuple[Hint, ...] = ()
    compiled: tuple[Compiled, ...] = ()
    taps: tuple[TapSeries, ...] = ()
    printed: tuple[Printed, ...] = ()
    results: tuple[str, ...] = ()
    """Text of what the cell displayed as its value."""
    comparison: Comparison | None = None
    nojit: NoJit | None = None
    """What ran without jit, in `jaxnojit` mode."""
    findings: tuple[Finding, ...] = ()
    failure: Failure | None = None
    limits: tuple[str, ...] = ()
    """What was not observed, and why; one line each."""

    def __repr__(self) -> str:
        counts = f"{len(self.compiled)} compiled, {len(self.findings)} findings, {len(self.taps)} taps"
        return f"<{self.mode} report: {self.state}, {counts}, {self.seconds.total:.3g} s>"


class Live(Record):
    """What came ashore since the last message, sent to the panel while the cell runs."""

    taps: tuple[TapSeries, ...]
    """With the new events only; `total` counts all so far."""
    seconds: float
    """Since the cell began."""
    sources: tuple[Source, ...] = ()
    """Text of files that were not spoken of before."""


class Payload(Record):
    """What travels to the panel and is saved in the notebook."""

    protocol: int
    version: str
    """Of the jaxmagic that wrote it."""
    report: str
    """The `Report` as JSON, gzipped, in base64."""
