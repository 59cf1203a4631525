"""Which functions are meant by the names or functions that the user gave, and which functions lead to them."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from jaxmagic.core import jax_internals
from jaxmagic.core.capture.ownership import IsUser, Subject, inside_jax, subject_of
from jaxmagic.core.lines.attributes import MISSING, attribute, class_attribute
from jaxmagic.core.programs.parameters import inner_jaxprs, opened

_MOST_FUNCTIONS = 400
"""Functions looked at to find out whether one leads to another."""


class Within(NamedTuple):
    """Where a traced program has operations that were written in one of some functions."""

    found: bool
    loops: frozenset[tuple[CodeType, int]] = frozenset()
    """Code and bytecode offset of the calls of JAX's loops and the like that contain such operations."""


NOT_KNOWN = Within(False)
"""Of a function whose program was not looked at."""


class Targets:
    """Functions by name or as objects.

    Names are those of the user's variables (`step`, `model.attend`, `module.f`), or of functions as Python
    spells them (`Model.attend`, `attend`). They are looked up again at each call, since a cell may bind them anew.

    Args:
        wanted: Names, or functions in any wrapping.
        namespace: The user's variables.
        is_user: Whose file it is.
    """

    def __init__(self, wanted: Sequence[str | Callable], namespace: Mapping[str, Any], is_user: IsUser) -> None:
        self.names = tuple(each for each in wanted if isinstance(each, str))
        self._namespace = namespace
        self._is_user = is_user
        self._bound: dict[str, tuple[Any, CodeType | None]] = {}
        self._given = {code for each in wanted if not isinstance(each, str) and (code := self.code_of(each))}
        self._labels = {id(code): code.co_qualname for code in self._given}

    def __bool__(self) -> bool:
        return bool(self.names or self._given)

    def labels(self) -> tuple[str, ...]:
        """What a person calls each of them."""
        return (*self.names, *(code.co_qualname for code in self._given))

    def label_of(self, code: CodeType | None) -> str | None:
        """Which of them has this code; None if it is none of them."""
        if code is None:
            return None
        for name in self.names:
            if _is_called(code, name) and self._is_user(code.co_filename):
                return name
            if self.bound_to(name) is code:
                return name
        return self._labels.get(id(code))

    def meant(self, subject: Subject) -> str | None:
        return self.label_of(subject.code)

    def bound_to(self, name: str) -> CodeType | None:
        """The code of what the user's variable of that name holds now."""
        value = _looked_up(self._namespace, name)
        known = self._bound.get(name)
        if known is None or known[0] is not value:
            code = None if value is MISSING else self.code_of(value)
            known = self._bound[name] = (value, code)
        return known[1]

    def code_of(self, function: Any) -> CodeType | None:
        """The code of the user's function inside of any wrapping; of `__call__` for an object that can be called."""
        found = subject_of(function, (), self._is_user)
        if found.code is not None:
            return found.code
        inner = found.reference()
        call = class_attribute(type(function if inner is None else inner), "__call__")
        return subject_of(call, (), self._is_user).code if isinstance(call, FunctionType) else None

    def called_from(self, function: Any) -> bool:
        """Whether a function's code leads to one of them, as far as that can be read off its names and closure."""
        return any(self._named_in(code) or self.label_of(code) for code in _reachable(function, self._is_user))

    def within(self, jaxpr: Any) -> Within:
        """Whether and where operations of a traced program were written in one of them."""
        loops: set[tuple[CodeType, int]] = set()
        return Within(self._search(jaxpr, {}, loops), frozenset(loops))

    def _search(self, jaxpr: Any, known: dict[int, bool], loops: set[tuple[CodeType, int]]) -> bool:
        found = False
        for equation in opened(jaxpr).eqns:
            inside = [self._search(each.jaxpr, known, loops) for each in inner_jaxprs("", equation.params)]
            places = _places(equation)
            if any(inside):
                loops.update([place for place in places if not inside_jax(place[0].co_filename)][:1])
            found = found or any(inside) or any(self._is_one(code, known) for code, _ in places)
        return found

    def _named_in(self, code: CodeType) -> bool:
        """Methods are reached through an attribute, of which only the name is known beforehand."""
        methods = {name.rpartition(".")[2] for name in self.names if "." in name}
        methods |= {each.co_name for each in self._given if "." in each.co_qualname.rpartition("<locals>.")[2]}
        return not methods.isdisjoint(code.co_names)

    def _is_one(self, code: CodeType, known: dict[int, bool]) -> bool:
        if id(code) not in known:
            known[id(code)] = self.label_of(code) is not None
        return known[id(code)]


def _is_called(code: CodeType, name: str) -> bool:
    return code.co_qualname == name or code.co_qualname.endswith("." + name)


def _looked_up(namespace: Mapping[str, Any], name: str) -> Any:
    first, *rest = name.split(".")
    value = namespace.get(first, MISSING)
    for part in rest:
        own = class_attribute(value, part) if isinstance(value, type) else attribute(value, part)
        value = class_attribute(type(value), part) if own is MISSING else own
    return value


def _reachable(function: Any, is_user: IsUser) -> Iterator[CodeType]:
    """Codes of the functions that a function names, holds, or is made of; only the user's are looked into."""
    waiting, seen = [function], set[int]()
    while waiting and len(seen) < _MOST_FUNCTIONS:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        inner = _plain(each)
        if inner is not None and inner is not each:
            waiting.append(inner)
        elif isinstance(each, FunctionType) and is_user(each.__code__.co_filename):
            yield from codes_of(each.__code__)
            waiting += _held(each)
        elif isinstance(each, FunctionType):
            yield each.__code__


def _plain(value: Any) -> Any:
    """What a partial, a method or a wrapper is around; the value itself for anything else."""
    if isinstance(value, functools.partial):
        return value.func
    if isinstance(value, MethodType):
        return value.__func__
    try:
        return getattr(value, "__wrapped__", value)
    except Exception:  # noqa: BLE001 - a library may compute it
        return value


def unwrapped(value: Any) -> Any:
    """The function inside of partials, methods, jit and other wrappers; anything else as it is."""
    for _ in range(50):
        inner = _plain(value)
        if inner is value:
            break
        value = inner
    return value


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions, lambdas and comprehensions written in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


def _held(function: FunctionType) -> list[Any]:
    names = {name for code in codes_of(function.__code__) for name in code.co_names}
    held = [function.__globals__[name] for name in names if name in function.__globals__]
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    modules = [each for each in held if isinstance(each, ModuleType)]
    held += [vars(module)[name] for module in modules for name in names if name in vars(module)]
    return [each for each in held if callable(each)]


def _places(equation: Any) -> list[tuple[CodeType, int]]:
    """Code and bytecode offset of each frame in which an operation was written, innermost first."""
    traceback = jax_internals.traceback_of(equation)
    return [] if traceback is None else jax_internals.frames_within_trace(traceback)
