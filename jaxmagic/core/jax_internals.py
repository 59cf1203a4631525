"""The only file that touches `jax._src`: each private piece, where it was checked, what is lost without it."""

import sys
import weakref
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any, NamedTuple

import jax
import jax._src.interpreters.partial_eval as _partial_eval
import jax._src.pjit as _pjit
from jax._src import ad_checkpoint as _ad_checkpoint
from jax._src import api as _api
from jax._src import callback as _callback
from jax._src import config as _config
from jax._src import core as _core
from jax._src import debugging as _debugging
from jax._src import dispatch as _dispatch
from jax._src import sharding_impls as _sharding_impls
from jax._src import source_info_util as _source_info_util
from jax._src import traceback_util as _traceback_util
from jax._src import xla_bridge as _xla_bridge
from jax._src.lax import control_flow as _control_flow
from jax._src.lax import lax as _lax
from jax._src.state import types as _state_types

# Not from `jax.extend.core`: importing that brings in Pallas, which since JAX 0.12 adds to the key of every trace
# cache, so that all functions compiled before would be traced and compiled again.
Literal = _core.Literal
Primitive = _core.Primitive
cond_p = _control_flow.cond_p
DEBUG_PRIMITIVES = tuple(
    getattr(_debugging, name)
    for name in ("debug_callback_p", "debug_print_p")
    if hasattr(_debugging, name) and hasattr(_debugging, "debug_batching_rule")
)
"""What `jax.debug.callback` and `jax.debug.print` become in a program, where `bind_for_each_lane` knows how."""


class Piece(NamedTuple):
    """One private attribute of JAX that we read or wrap."""

    owner: Any
    name: str
    lost: str
    """What jaxmagic can't observe where the piece is missing."""
    checked: tuple[str, ...]
    """JAX versions it was seen to work on."""

    @property
    def present(self) -> bool:
        return hasattr(self.owner, self.name)


_ALL = ("0.8.3", "0.10.2", "0.12.0.1")

PIECES = {
    "infer_params": Piece(_pjit, "_infer_params", "calls of jitted functions", _ALL),
    "call_impl": Piece(_pjit, "_pjit_call_impl_python", "executables and their cost", _ALL),
    "resolve_and_lower": Piece(_pjit, "_resolve_and_lower", "StableHLO and compile seconds", _ALL),
    "trace_init": Piece(_partial_eval.DynamicJaxprTrace, "__init__", "whether a call was traced or cached", _ALL),
    "trace_to_jaxpr": Piece(_partial_eval, "trace_to_jaxpr", "loop bodies traced before the cell", _ALL),
    "fast_path": Piece(_pjit, "_get_fastpath_data", "eager operations", _ALL),
    "cache_fun_only": Piece(_pjit, "_cpp_pjit_cache_fun_only", "functions jitted before the cell", _ALL),
    "cache_explicit": Piece(_pjit, "_cpp_pjit_cache_explicit_attributes", "functions jitted before the cell", _ALL),
    "infer_cache": Piece(_pjit, "_infer_params_cached", "why a function traced before the cell is traced again", _ALL),
    "compiled_call": Piece(jax.stages.Compiled, "__call__", "calls of functions compiled ahead of time", _ALL),
    "post_hook": Piece(_api, "_post_hook_state", "how often a jitted function is called", _ALL),
    "trace_context": Piece(_config, "trace_context", "options that make JAX trace again", _ALL),
    "current_trace": Piece(_core, "trace_ctx", "under which transformations code runs", _ALL),
    "backend_ready": Piece(_xla_bridge, "backends_are_initialized", "whether a cell used JAX at all", _ALL),
    "filter_traceback": Piece(_traceback_util, "filter_traceback", "JAX's own frames below a failing line", _ALL),
    "user_frames": Piece(_source_info_util, "user_frames", "source lines of equations", _ALL),
}

for _name in ("_run_python_pjit", "_python_pjit_helper"):  # the second until JAX 0.8
    if hasattr(_pjit, _name):
        PIECES[_name.removeprefix("_")] = Piece(
            _pjit, _name, "calls of jitted functions that are to run in Python", _ALL
        )


def _inside(function: Any) -> Any:
    """The cell that holds the function which JAX's filter of tracebacks calls.

    It is shared by everyone who has imported the function, under whatever name and whenever.
    """
    return function.__closure__[function.__code__.co_freevars.index("fun")]


for _name in ("scan", "while_loop", "cond", "switch"):
    PIECES[_name] = Piece(_inside(getattr(jax.lax, _name)), "cell_contents", f"{_name} as a Python loop", _ALL)

if hasattr(_callback, "_FlatCallback"):
    PIECES["host_function"] = Piece(_callback._FlatCallback, "__call__", "NaN in programs that call the host", _ALL)

if hasattr(_ad_checkpoint, "_trace_to_jaxpr"):
    PIECES["checkpoint_trace"] = Piece(_ad_checkpoint, "_trace_to_jaxpr", "remat bodies traced before", _ALL)
    PIECES["checkpoint_bind"] = Piece(_ad_checkpoint.remat_p, "bind", "remat in Python", _ALL)


def missing() -> dict[str, Piece]:
    """The pieces that this JAX does not have; empty on every version listed in `checked`."""
    return {key: piece for key, piece in PIECES.items() if not piece.present}


@contextmanager
def replaced(key: str, replacement: Any) -> Iterator[Any]:
    """Puts `replacement` in the place of a piece, and the original back on any way out."""
    piece = PIECES[key]
    original = getattr(piece.owner, piece.name)
    setattr(piece.owner, piece.name, replacement)
    try:
        yield original
    finally:
        setattr(piece.owner, piece.name, original)


def backend_is_ready() -> bool:
    """Whether any backend was initialized; asking JAX for its devices would do so, which takes seconds on a GPU."""
    piece = PIECES["backend_ready"]
    return getattr(piece.owner, piece.name)() if piece.present else True


def forget_dispatch() -> None:
    """Empties JAX's two C++ dispatch caches, so that each jitted function's next call passes through Python once.

    Nothing is traced, lowered or compiled again: the Python caches stay (`jax.clear_caches` ends the same way).
    """
    for key in ("cache_fun_only", "cache_explicit"):
        getattr(PIECES[key].owner, PIECES[key].name).clear()


def forget_effects() -> None:
    """Drops the tokens of programs with effects that were not waited for, or that failed."""
    _dispatch.runtime_tokens.clear()


def is_for_export(lowering: dict[str, Any]) -> bool:
    """Whether the keywords of a lowering say that its program is to be stored (`jax.export`)."""
    return bool(getattr(lowering.get("lowering_parameters"), "for_export", False))


def exclude_from_tracebacks(file: str) -> None:
    """Keeps a file of ours out of JAX's filtered tracebacks and out of the locations in its programs."""
    _traceback_util.register_exclusion(file)
    _source_info_util.register_exclusion(file)


def trace_context() -> dict[str, Any]:
    """Options and surroundings in the key of JAX's trace cache, by name; values on this thread, now.

    JAX 0.8 does not say the names of the parts of its key: all options that have a name are given there as well.
    """
    named = named_context(_config.trace_context())
    return named | dict(jax.config.values) if UNNAMED in next(iter(named), "") else named


UNNAMED = "part of the trace context"


def named_context(values: tuple) -> dict[str, Any]:
    """The parts of a trace cache's key with their names; numbered ones where JAX does not say them."""
    try:
        return dict(zip(_config.trace_context_names(), values, strict=True))
    except (AttributeError, NotImplementedError, ValueError):
        return {f"{UNNAMED} {number}": value for number, value in enumerate(values)}


class Earlier(NamedTuple):
    """One call signature for which JAX holds a trace."""

    function: weakref.ref
    """The function that was traced."""
    info: Any
    """The jit's options, JAX's `PjitInfo`."""
    signature: Any
    """JAX's `ArgumentSignature`: which arguments came by keyword, the static ones, the trees."""
    avals: tuple
    context: tuple
    """Values of the trace context at the time."""


def earlier_traces() -> dict[int, list[tuple]]:
    """Every signature in JAX's cache of traces, whoever called it, by the `id` of the function that was traced.

    About 0.5 ms per 1,000, which is why they are told of by `earlier` one by one.
    """
    found: dict[int, list[tuple]] = {}
    for key in _pjit._infer_params_cached.cache_keys():
        found.setdefault(id(key[0]()), []).append(key)
    return found


def earlier(key: tuple) -> Earlier:
    """What one of `earlier_traces` says."""
    function, context, (info, signature, avals, *_), _ = key
    return Earlier(function, info, signature, avals, context)


def options_of_jit(function: Any) -> Any:
    """JAX's `PjitInfo` of a jitted function, the same object for all its calls; None for anything else."""
    return getattr(function, "_jit_info", None)


def jaxpr_behind(function: Any) -> Any:
    """The jaxpr that a function of JAX's own making runs: one that it derived by vmap or grad from a jitted one's.

    JAX makes such a function anew for each call. None for any other function.
    """
    missed = getattr(function, "_cache_miss", None)
    if missed is None or "jaxpr" not in missed.__code__.co_freevars:
        return None
    return missed.__closure__[missed.__code__.co_freevars.index("jaxpr")].cell_contents


def derivation(running: Collection[str]) -> str:
    """What JAX derives a program for while these functions of its own run.

    Returns:
        `forward` or `backward` of a gradient, `jvp`, `linear part` (of `jax.linearize`), or empty: by vmap alone.
    """
    return next((what for name, what in _DERIVATIONS.items() if name in running), "")


_DERIVATIONS = {
    "_pjit_transpose_fancy": "backward",
    "_pjit_linearize": "forward",
    "_lift_linearized": "linear part",
    "_pjit_jvp": "jvp",
}
"""By the function of JAX's that runs, the innermost purpose first."""


def parameters_of_call(function: Any, info: Any, args: tuple, kwargs: dict) -> Any:
    """What JAX needs to run a call, traced or from its cache of traces; `.params["jaxpr"]` is the program."""
    __tracebackhide__ = True
    return _pjit._infer_params(function, info, args, kwargs)[0]


def traced_jaxpr(function: Any, args: tuple, kwargs: dict) -> Any:
    """The jaxpr that a jitted function runs for these arguments, from JAX's cache of traces."""
    return _pjit._infer_params(function._fun, function._jit_info, args, kwargs)[0].params["jaxpr"]


def arguments_of_trace(trace: Any) -> list[tuple[str, Any]]:
    """Names and avals of the arguments with which a trace to a jaxpr began, also while it is under way."""
    names = trace.frame.debug_info.arg_names or ()
    return [(name or "", variable.aval) for name, variable in zip(names, trace.frame.invars, strict=False)]


def arguments_of_compiled(stage: Any) -> list[tuple[str, Any, bool]]:
    """Path, aval and whether it is donated, of each array that a `jax.stages.Compiled` takes."""
    leaves = jax.tree_util.tree_leaves_with_path(stage.args_info)
    return [(_path(path), leaf._aval, bool(leaf.donated)) for path, leaf in leaves]


def _path(path: tuple) -> str:
    """`args[0]['w']` or `scale`, for a leaf of the pair `(args, kwargs)`."""
    if path[0].idx == 0:
        return f"args{jax.tree_util.keystr(path[1:])}"
    return f"{path[1].key}{jax.tree_util.keystr(path[2:])}"


def executable_of(stage: Any) -> Any:
    """What runs behind a `jax.stages.Compiled` or a lowered computation; None before it is compiled."""
    return getattr(stage, "_executable", None)


class Names(NamedTuple):
    """What JAX noted of the function behind a jaxpr; empty where it did not."""

    function: str
    arguments: tuple[str, ...]
    """One per input, `params['w']`; empty strings for inputs that JAX added."""
    results: tuple[str, ...]
    """One per output, `result[0]`."""


def names_of(jaxpr: Any) -> Names:
    """The names in an open jaxpr's debug info; a list whose length does not fit is left out rather than guessed."""
    info = getattr(jaxpr, "debug_info", None)
    function = str(getattr(info, "func_src_info", None) or "").split(" ")[0]
    arguments = getattr(info, "arg_names", None)
    results = getattr(info, "result_paths", None)
    return Names(
        "" if function == "<unknown>" else function,
        _fitting(arguments, len(jaxpr.invars)),
        _fitting(results, len(jaxpr.outvars)),
    )


def traced_function(jaxpr: Any) -> tuple[str, int] | None:
    """File and first line of the function that an open jaxpr is the trace of; None where JAX does not say."""
    place = str(getattr(getattr(jaxpr, "debug_info", None), "func_src_info", None) or "").partition(" at ")[2]
    file, _, line = place.rpartition(":")
    return (file, int(line)) if file and line.isdigit() else None


def _fitting(names: Any, count: int) -> tuple[str, ...]:
    if not isinstance(names, tuple | list) or len(names) != count:
        return ()
    return tuple(name if isinstance(name, str) else "" for name in names)


_TRACE_BEGINS = {"trace_to_jaxpr", "trace_to_jaxpr_dynamic"}


def frames_within_trace(traceback: Any) -> list[tuple[CodeType, int]]:
    """Code and bytecode offset of each frame of an equation's traceback, innermost first, JAX's own included.

    Ends where the innermost trace began: JAX 0.10 and later cut there, 0.8 goes on with the frames of whoever
    caused the trace, which say nothing about the other callers of the same cached jaxpr.
    """
    frames = []
    for code, offset in zip(*traceback.raw_frames(), strict=True):
        if code.co_name in _TRACE_BEGINS and code.co_filename == _partial_eval.__file__:
            break
        frames.append((code, offset))
    return frames


def is_whole(frames: list[tuple[CodeType, int]]) -> bool:
    """Whether `frames_within_trace` go on to the bottom of a thread's stack: no trace of jit was around them."""
    return bool(frames) and frames[-1][0].co_name in _BOTTOMS


_BOTTOMS = ("<module>", "_run_module_as_main", "_bootstrap")


class Level(NamedTuple):
    """One transformation around the code that runs."""

    purpose: str
    """`jit`, `scan`, `while_body`, `vmap`, `grad`, `jvp`, …"""
    name: str = ""
    """Of the function, where JAX traces one."""
    size: int | None = None
    """Of the axis, under vmap."""
    axes: tuple[tuple[str, int], ...] = ()
    """Of the mesh, under a shard_map or pmap whose code runs right now: names and sizes."""


_PURPOSES = {"BatchTrace": "vmap", "JVPTrace": "jvp", "LinearizeTrace": "grad", "JaxprTrace": "grad"}
_PURPOSES |= {"ShardMapTrace": "shard_map"}


def trace_levels() -> list[Level]:
    """The transformations around the code that runs, innermost first; empty where values are concrete."""
    levels: list[Level] = []
    trace: Any = _core.trace_ctx.trace
    while trace is not None and not isinstance(trace, _core.EvalTrace):
        levels.append(_level(trace))
        trace = getattr(trace, "parent_trace", None)
    mapped = next((at for at, level in enumerate(levels) if level.purpose == "shard_map"), None)
    if mapped is not None:
        purpose = "pmap" if levels[mapped].name in MAPPED_BY_PMAP else "shard_map"
        levels[mapped] = levels[mapped]._replace(purpose=purpose, axes=_manual_axes())
    return levels


MAPPED_BY_PMAP = ("_fun", "call_wrapped")
"""What JAX calls the function that it makes of a pmap, to give it to shard_map: 0.10 and later, 0.8."""


def _manual_axes() -> tuple[tuple[str, int], ...]:
    """Mesh axes over which the code that runs is written for one device; without a name for that of an unnamed pmap."""
    mesh = jax.sharding.get_abstract_mesh()
    names = () if mesh.empty else mesh.manual_axes
    return tuple((_axis_name(name), mesh.shape[name]) for name in names)


def _axis_name(name: Any) -> str:
    return name if isinstance(name, str) and not name.startswith(("<", "_internal")) else ""


def _level(trace: Any) -> Level:
    kind = type(trace).__name__
    debug = getattr(getattr(trace, "frame", None), "debug_info", None)
    if debug is not None:
        return Level(debug.traced_for, debug.func_name)
    size = trace.axis_data.size if kind == "BatchTrace" else None
    return Level(_PURPOSES.get(kind, kind.removesuffix("Trace").lower()), size=size)


def is_staging() -> bool:
    """Whether operations bound now go into a jaxpr: of a jit, a loop's body, `eval_shape`, …"""
    trace: Any = _core.trace_ctx.trace
    while trace is not None and not isinstance(trace, _core.EvalTrace):
        if isinstance(trace, _partial_eval.DynamicJaxprTrace):
            return True
        trace = getattr(trace, "parent_trace", None)
    return False


def concrete_of(value: Any) -> Any:
    """The array behind a tracer of vmap or grad that runs without a jit around it; None where there is none.

    Of a vmapped value it is the whole batch.
    """
    while isinstance(value, _core.Tracer):
        inner: Any = getattr(value, "val", None)
        value = getattr(value, "primal", None) if inner is None else inner
    return value if isinstance(value, jax.Array) else None


def batch_sizes(tracer: Any) -> tuple[int, ...]:
    """Sizes of the vmapped axes that a tracer runs over, innermost first; its aval is of one example."""
    sizes = []
    while isinstance(tracer, _core.Tracer):
        if getattr(tracer, "batch_dim", None) is not None:
            sizes.append(tracer._trace.axis_data.size)
        inner: Any = getattr(tracer, "val", None)
        tracer = getattr(tracer, "primal", None) if inner is None else inner
    return tuple(sizes)


def weak(array: Any) -> Any:
    """The same array of a weak type, such as Python numbers have."""
    return _lax._convert_element_type(array, weak_type=True)


def new_variable(aval: Any) -> Any:
    """A variable for a jaxpr that is being rewritten."""
    return _core.Var(aval)


def new_equation(primitive: Any, ins: list[Any], out: Any, like: Any) -> Any:
    """An equation without parameters or effects, attributed to the same source as the equation `like`."""
    return _core.new_jaxpr_eqn(ins, [out], primitive, {}, set(), like.source_info, like.ctx)


def scan_inputs(equation: Any) -> tuple[int, int]:
    """How many of a scan's operands are constants and how many its carry; the rest are sliced."""
    parameters = equation.params
    if "num_consts" in parameters:
        return parameters["num_consts"], parameters["num_carry"]
    constants, carry, _ = parameters["ft_in"].unpack()
    return len(constants), len(carry)


def scan_parameters(equation: Any, jaxpr: Any, constants: int, carry: int) -> dict[str, Any]:
    """Parameters of the same scan over a body with other numbers of constants and carries (kept per version)."""
    parameters = {**equation.params, "jaxpr": jaxpr}
    if "num_consts" in parameters:  # JAX 0.8 and 0.10
        added = constants + carry - parameters["num_consts"] - parameters["num_carry"]
        parameters |= {"num_consts": constants, "num_carry": carry}
        if "linear" in parameters:  # JAX 0.8
            parameters["linear"] = (False,) * added + tuple(parameters["linear"])
        return parameters
    tree = sys.modules[type(parameters["ft_in"]).__module__]  # JAX 0.12: grouped by flat trees
    sliced, (_, stacked) = parameters["ft_in"].unpack()[2], parameters["ft_out"].unpack()
    parameters["ft_in"] = tree.pack((tree.nones(constants), tree.nones(carry), tree.nones(len(sliced))))
    parameters["ft_out"] = tree.pack((tree.nones(carry), tree.nones(len(stacked))))
    return parameters


def unspecified_sharding() -> Any:
    return _sharding_impls.UNSPECIFIED  # pyright: ignore[reportPrivateImportUsage]


def bind(equation: Any, operands: list[Any]) -> list[Any]:
    """What an equation computes of these operands, as a list; it may be traced."""
    primitive, bound = equation.primitive, equation.primitive.get_bind_params(equation.params)
    functions, parameters = bound if isinstance(bound, tuple) else ((), bound)  # a pair until JAX 0.8
    with equation.ctx.manager:
        answer = primitive.bind(*functions, *operands, **parameters)
    return list(answer) if primitive.multiple_results else [answer]


def name_stack_of(equation: Any) -> str:
    """Scopes and transformations that an equation was staged under: `vmap(transpose(jvp(mlp)))`."""
    return str(equation.source_info.name_stack)


def name_stack_here() -> str:
    """The same for an operation that runs now."""
    return str(_source_info_util.current().name_stack)


def sizes_of_vmaps(frame: Any) -> tuple[int, ...]:
    """Sizes of the axes that the operation which a frame runs was vmapped over without jit, outermost first."""
    sizes = []
    while frame is not None:
        if frame.f_code.co_name == "process_primitive":
            trace = frame.f_locals.get("self")
            if type(trace).__name__ == "BatchTrace":
                sizes.append(int(trace.axis_data.size))
        frame = frame.f_back
    return tuple(sizes)


def traceback_of(equation: Any) -> Any:
    """JAX's own traceback of where an equation was staged; None for anything that isn't an equation."""
    return getattr(getattr(equation, "source_info", None), "traceback", None)


def trace_of(tracer: Any) -> Any:
    """The trace that a tracer belongs to; None where JAX keeps it elsewhere."""
    return getattr(tracer, "_trace", None)


def is_of_current_program(tracer: Any) -> bool:
    """Whether a tracer belongs to one of the traces from the current one out to the first that builds a jaxpr."""
    own = tracer._trace
    trace: Any = _core.trace_ctx.trace
    while trace is not None and not isinstance(trace, _core.EvalTrace):
        if own is trace or getattr(own, "tag", own) is getattr(trace, "tag", trace):
            return True
        if isinstance(trace, _partial_eval.DynamicJaxprTrace):
            return False
        trace = getattr(trace, "parent_trace", None)
    return False


def here() -> Any:
    """The traceback that JAX would give to an equation staged now; it refers to code, not to frames."""
    return _source_info_util.current().traceback


def stack_of(traceback: Any) -> Any:
    """The code and offset of each frame of a traceback: equal for two operations of the same place and callers."""
    return tuple((id(code), offset) for code, offset in zip(*traceback.raw_frames(), strict=True))


def as_if_at(traceback: Any) -> Any:
    """A context in which equations are staged with that traceback."""
    return _source_info_util.user_context(traceback)


def run_again(params: dict[str, Any], arguments: list[Any]) -> list[Any]:
    """Does what a dispatched program did, given its parameters; a single primitive is bound as itself."""
    jaxpr = params["jaxpr"]
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    if len(inner.eqns) == 1 and inner.eqns[0].primitive.name not in ("jit", "pjit"):
        return _core.eval_jaxpr(inner, jaxpr.consts, *arguments, propagate_source_info=False)
    return _pjit.jit_p.bind(*arguments, **params)


def without_jaxpr(results: Any) -> tuple:
    """What JAX's dispatch of a jitted function is to return for a call that ran in Python: nothing to keep of it."""
    leaves, tree = jax.tree_util.tree_flatten(results)
    return results, leaves, tree, [], _NOTHING_COMPILED, None, None, []


class _NothingCompiled(NamedTuple):
    effects: frozenset = frozenset()
    consts: tuple = ()


_NOTHING_COMPILED = _NothingCompiled()


_PROGRAMS_ONLY = ("eval_shape", "lower", "trace", "make_jaxpr_f")


def asks_for_program(frame: Any) -> bool:
    """Whether a frame is JAX's own that makes a function's program, or its shapes, and will not run it."""
    return frame.f_code.co_name in _PROGRAMS_ONLY and frame.f_code.co_filename in (_api.__file__, _pjit.__file__)


def called_by_dispatch(frame: Any) -> bool:
    """Whether the innermost frame of JAX's, from `frame` outwards, is the dispatch of a jitted function's call."""
    while frame is not None and frame.f_code.co_filename != _pjit.__file__:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == "cache_miss"


def is_reference(tracer: Any) -> bool:
    """Whether a tracer stands for a mutable array (`jax.new_ref`), not for a value."""
    return isinstance(tracer.aval, _state_types.AbstractRef)


def call_directly(lowering: Any, emitted: Any, callback: Any) -> None:
    """Has a program call `callback` itself, where JAX has just put in `emitted`, which checks what a callback returns.

    Those checks are a third of what an empty callback takes. Nothing changes where JAX keeps its callbacks elsewhere.
    """
    callbacks = getattr(lowering.module_context, "host_callbacks", None)
    if emitted is not None and callbacks and callbacks[-1] is emitted:
        callbacks[-1] = callback


def is_dropped(variable: Any) -> bool:
    """Whether an equation's result is thrown away (`_` in a printed jaxpr)."""
    return isinstance(variable, _core.DropVar)


class HostWork(NamedTuple):
    """What a frame of JAX's says of work on the host that it stands for."""

    kind: str
    """`print`: it prints for `jax.debug.print`. `callback`: it calls a host function. `request`: the user's code asks
    for the work at this moment."""
    text: str = ""
    """The format of the print; the name of the host function."""


_REQUESTS = ("debug_print", "_debug_print", "debug_callback", "_debug_callback", "io_callback", "pure_callback")


def bind_for_each_lane(primitive: Any, operands: Any, axes: Any, parameters: dict[str, Any]) -> Any:
    """JAX's rule for a vmapped one of `DEBUG_PRIMITIVES`, for whatever is to be bound in its place."""
    return _debugging.debug_batching_rule(operands, axes, primitive=primitive, **parameters)


def host_work(frame: Any) -> HostWork | None:
    """Reads a frame on the stack of a host function; None for frames that say nothing."""
    code = frame.f_code
    if code.co_filename not in (_debugging.__file__, _callback.__file__):
        return None
    if code.co_name in _REQUESTS:
        return HostWork("request")
    if code.co_name == "_format_print_callback":
        return HostWork("print", frame.f_locals["fmt"])
    if code.co_name in ("_flat_callback", "__call__"):
        values = frame.f_locals
        function = values.get("callback", getattr(values.get("self"), "callback_func", None))
        return HostWork("callback", str(getattr(function, "__name__", "")))
    return None
