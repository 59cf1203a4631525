"""Operands of a kind that an operation does not take: other dtypes, random keys, None, strings, lists."""

import ast
from types import FrameType

from jaxmagic.core.rules.catalogue import Cause, on_error
from jaxmagic.core.rules.contexts import Failing
from jaxmagic.core.rules.rewrite import alias, call, replaced, taking, text
from jaxmagic.core.source.nodes import parts
from jaxmagic.records import Aval

_LOGICAL = {ast.BitAnd: "logical_and", ast.BitOr: "logical_or", ast.BitXor: "logical_xor"}


@on_error(
    "dtype-not-accepted", "an operation does not take arrays of this dtype: floats as indices, keys in arithmetic"
)
def dtype_not_accepted(failing: Failing) -> Cause | None:
    """Indices are integers, `&` and `|` work on integers and booleans, and random keys are no numbers: they are
    split, folded and drawn from. A draw takes one key.

    Sure: the operation itself raised.
    """
    node = failing.node
    refused = failing.says(r"^\w+ does not accept dtypes? (?:\w|<|>|, )+")
    indexed = failing.says(r"Indexer must have integer or boolean type, got indexer with type (\w+)")
    keys = failing.says(r"key<\w+> is not a valid dtype for JAX type promotion|invalid PRNG key data")
    branch = failing.says(r"^Index type must be an integer")
    several = failing.says(r"^(\w+) accepts a single key, but was given a key array of shape (\([\d, ]*\))")
    if not isinstance(node, ast.expr) or not (refused or indexed or branch or keys or several):
        return None
    avals = [(part, aval) for part in parts(node) if (aval := failing.aval(part)) is not None]
    key = next((part for part, aval in avals if aval.dtype.startswith("key<")), None)
    if several:
        return _many_keys(failing, node)
    if indexed or branch:
        return _index(failing, node, avals[branch is None :])
    way = "These dtypes do not go together in this operation."
    fix = ""
    if key is not None:
        way = "A random key is no number: split it, fold a number into it, or draw from it."
        fix = _folded(failing, node, key)
    elif keys:
        way = "Draws take a key: `jax.random.key(seed)` makes one of a number."
        fix = _keyed(failing, node)
    elif isinstance(node, ast.BinOp) and type(node.op) in _LOGICAL:
        way = "`&`, `|` and `^` work bit by bit, on integers and booleans; `jnp.logical_and` and its kin take any."
        fix = text(call(f"{alias(failing.scope, 'jax.numpy')}.{_LOGICAL[type(node.op)]}", node.left, node.right))
    shown = " and ".join(failing.shown(part) for part, _ in avals)
    first = next(iter(node.args), None) if isinstance(node, ast.Call) else None
    title = f"`{failing.text(node)}` does not take {shown}"
    if not shown and first is not None:
        title = f"`{failing.text(first)}` is no random key"
    return Cause(
        title=title,
        explanation=way,
        evidence=failing.evidence(*(part for part, _ in avals)),
        fix=fix,
        replaces=failing.span,
    )


def _folded(failing: Failing, node: ast.expr, key: ast.expr) -> str:
    """`key + 1` as `jax.random.fold_in(key, 1)`."""
    if not isinstance(node, ast.BinOp) or node.left is not key or failing.aval(node.right) is not None:
        return ""
    return text(call(f"{alias(failing.scope, 'jax')}.random.fold_in", key, node.right))


def _keyed(failing: Failing, node: ast.expr) -> str:
    if not isinstance(node, ast.Call) or not node.args or type(failing.scope.get(node.args[0])) is not int:
        return ""
    return text(replaced(node, node.args[0], call(f"{alias(failing.scope, 'jax')}.random.key", node.args[0])))


def _index(failing: Failing, node: ast.expr, avals: list[tuple[ast.expr, Aval]]) -> Cause:
    wrong = next((part for part, aval in avals if "int" not in aval.dtype and aval.dtype != "bool"), None)
    fix = text(replaced(node, wrong, ast.Call(ast.Attribute(wrong, "astype"), [ast.Name("int")], []))) if wrong else ""
    shown = failing.shown(wrong) if wrong is not None else "the index"
    return Cause(
        title=f"{shown} is used as an index, which must be integers",
        explanation="An index counts elements. `.astype(int)` cuts the fraction off.",
        evidence=failing.evidence(*(part for part, _ in avals)),
        fix=fix,
        replaces=failing.span,
    )


def _many_keys(failing: Failing, node: ast.expr) -> Cause:
    fix = ""
    if isinstance(node, ast.Call) and node.args:
        one = ast.Call(node.func, [ast.Name("key"), *node.args[1:]], node.keywords)
        mapped = call(f"{alias(failing.scope, 'jax')}.vmap", taking(["key"], one))
        fix = text(ast.Call(mapped, [node.args[0]], []))
    given = node.args[0] if isinstance(node, ast.Call) and node.args else node
    return Cause(
        title=f"`{failing.text(node)}` takes one key, and {failing.shown(given)} holds several",
        explanation="Each key gives one draw. `jax.vmap` draws once for each.",
        evidence=failing.evidence(given),
        fix=fix,
        replaces=failing.span,
    )


@on_error("operand-not-array", "None, a string or a list where an array is needed")
def operand_not_array(failing: Failing) -> Cause | None:
    """An operation of arrays and numbers got None (a parameter without its value, a function without `return`), a
    string, or a Python list. JAX names the type, and not the operand. Lists are not turned into arrays by
    themselves, as that is slow for long ones: `jnp.asarray` does it.

    Sure: the operation itself raised.
    """
    pair = failing.says(r"unsupported operand type\(s\) for (\S+): '(?:[\w.]*\.)?(\w+)' and '(?:[\w.]*\.)?(\w+)'")
    given = failing.says(r"requires ndarray or scalar arguments, got <class '(?:[\w.]*\.)?(\w+)'> at position (\d+)")
    given = given or failing.says(r"^Error interpreting argument to <function \w+ at \S+> as an abstract array")
    listed = failing.says(r"Using a non-tuple sequence for multidimensional indexing is not allowed")
    node = failing.node
    if not isinstance(node, ast.expr) or not (pair or given or listed):
        return None
    if pair and isinstance(node, ast.Call) and any(_is_library(frame) for frame in failing.machinery):
        return None  # operands of the library's own, which are no arguments
    arrays = [part for part in parts(node) if failing.aval(part) is not None]
    wrong = _wrong(failing, node)
    if wrong is None or (pair and not arrays):
        return None
    kind = _kind(failing, wrong)
    sequence = kind in ("list", "tuple")
    made = call(f"{alias(failing.scope, 'jax.numpy')}.asarray", wrong)
    way = {
        "None": "It was not given, or it is what a function without `return` gave.",
        "str": "Strings are no arrays.",
    }.get(kind, "`jnp.asarray` makes an array of it." if sequence else "Only arrays and numbers can be computed with.")
    spelled = "None" if failing.text(wrong) == "None" else f"`{failing.text(wrong)}` is {_a(kind)}"
    return Cause(
        title=f"{spelled}, where an array is needed",
        explanation=way,
        evidence=failing.evidence(*arrays),
        fix=text(replaced(node, wrong, made)) if sequence else "",
        replaces=failing.span,
    )


def _is_library(frame: FrameType) -> bool:
    return not frame.f_globals.get("__name__", "").startswith("jax")


def _a(kind: str) -> str:
    return kind if kind == "None" else f"a {kind}"


def _wrong(failing: Failing, node: ast.expr) -> ast.expr | None:
    """The operand that is no array, by its value or its spelling."""
    candidates = [*node.args] if isinstance(node, ast.Call) else parts(node)
    candidates += [part for each in candidates if isinstance(each, ast.List | ast.Tuple) for part in each.elts]
    kinds = [(part, _kind(failing, part)) for part in candidates]
    named = [part for part, kind in kinds if kind in ("None", "str")]
    lists = [part for part, kind in kinds if kind in ("list", "tuple")]
    direct = [part for part in lists if not isinstance(node, ast.Call) or part in node.args]
    return next(iter([*named, *direct]), None)


def _kind(failing: Failing, node: ast.expr) -> str:
    missing = object()
    value = failing.scope.get(node, missing)
    if isinstance(node, ast.List | ast.ListComp):
        return "list"
    if value is None:
        return "None"
    return "" if value is missing else type(value).__name__
