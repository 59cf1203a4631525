"""A program as readable text: one equation a line, regions indented under the equation that runs them."""

from collections.abc import Iterator, Sequence
from itertools import islice

from jaxmagic.outline.characters import short
from jaxmagic.outline.places import Places
from jaxmagic.records import Equation, Program, Region, Source, Variable

PARAMS = 100
"""Characters of an equation's parameters that are worth showing."""
_LITERAL = 40
_NAME = 40
_COLUMN = 64
"""Where the source lines stand, unless the equation is longer."""


def program_text(program: Program, sources: Sequence[Source] = (), most: int = 10_000) -> str:
    """The jaxpr, with the source line of each equation at its end.

    Args:
        program: From `report.compiled[i].traces[j].program`.
        sources: `report.sources`, to name cells and files as a person does.
        most: Lines to show.

    Returns:
        Several lines. Long parameters and literals are cut.
    """
    lines = _Writer(program, sources).region(program.root, "", ())
    kept = list(islice(lines, most))
    if next(lines, None) is not None:
        kept.append(f"… cut after {most:,} lines of {program.equations:,} equations")
    return "\n".join(kept)


class _Writer:
    def __init__(self, program: Program, sources: Sequence[Source]) -> None:
        self._frames = program.frames
        self._places = Places(sources)

    def region(self, region: Region, indent: str, arguments: Sequence[int | str]) -> Iterator[str]:
        inputs = [self._declared(variable) for variable in region.inputs]
        passed = zip(inputs, map(_atom, arguments), strict=False)
        shown = [f"{inner} = {outer}" for inner, outer in passed] if len(arguments) == len(inputs) else inputs
        yield f"{indent}{_head(region)}({', '.join(shown)}):"
        inside = indent + "    "
        if region.constants:
            yield f"{inside}constants {', '.join(map(self._declared, region.constants))}"
        for equation in region.equations:
            yield from self._equation(equation, inside)
        if region.hidden:
            yield f"{inside}… {region.hidden:,} more equations"
        yield f"{inside}return {', '.join(map(_atom, region.outputs)) or 'nothing'}"

    def _equation(self, equation: Equation, indent: str) -> Iterator[str]:
        outs = ", ".join(map(self._declared, equation.outs))
        params = f"[{short(equation.params, PARAMS)}]" if equation.params else ""
        ins = ", ".join(map(_atom, equation.ins))
        text = f"{indent}{outs}{' = ' if outs else ''}{short(equation.primitive, _NAME)}{params}({ins})"
        where = self._where(equation)
        yield f"{text:<{_COLUMN}}  # {where}" if where else text
        for region in equation.regions:
            same = len(region.inputs) == len(equation.ins)
            yield from self.region(region, indent + "    ", equation.ins if same else ())

    def _where(self, equation: Equation) -> str:
        if not 0 <= equation.frame < len(self._frames):
            return ""
        return self._places.name(self._frames[equation.frame].span)

    def _declared(self, variable: Variable) -> str:
        return f"{_letters(variable.id)}{f' {short(variable.name, _NAME)}' if variable.name else ''}: {variable.aval}"


def _head(region: Region) -> str:
    return " ".join(short(part, _NAME) for part in (region.kind, region.name) if part)


def _atom(atom: int | str) -> str:
    return short(atom, _LITERAL) if isinstance(atom, str) else _letters(atom)


def _letters(number: int) -> str:
    """The names that JAX gives: a, b, …, z, aa, ab, …"""
    letters = ""
    number += 1
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("a") + rest) + letters
    return letters
