"""The programs of a function, each folded away under its stage."""

from collections.abc import Sequence
from functools import partial

from jaxmagic.outline.caps import Caps
from jaxmagic.outline.form import Block, Fold, Preformatted, Word, line
from jaxmagic.outline.jaxprs import program_text
from jaxmagic.outline.units import amount, counted
from jaxmagic.records import Compiled, Listing, Program, Source, Trace


def programs_fold(compiled: Compiled, sources: Sequence[Source], caps: Caps) -> Fold | None:
    """Jaxpr, StableHLO and HLO of each trace; None where none was kept."""
    traces = compiled.traces[: caps.traces]
    numbered = len(traces) > 1
    blocks = [
        block
        for number, trace in enumerate(traces, 1)
        for block in _stages(trace, f" of trace {number}" if numbered else "", sources, caps)
    ]
    if not blocks:
        return None
    return Fold(line(f"Programs: {', '.join(_counts(traces))}"), tuple(blocks))


def _counts(traces: Sequence[Trace]) -> list[str]:
    jaxprs = [trace.program.equations for trace in traces if trace.program]
    sizes = f"{min(jaxprs):,}–{max(jaxprs):,}" if len(set(jaxprs)) > 1 else f"{max(jaxprs, default=0):,}"
    equations = "equation" if sizes == "1" else "equations"
    found = [f"jaxpr of {sizes} {equations}"] if len(jaxprs) == 1 else []
    found += [f"{len(jaxprs)} jaxprs of {sizes} {equations}"] if len(jaxprs) > 1 else []
    for stage, count in (
        ("StableHLO", sum(trace.stablehlo is not None for trace in traces)),
        ("HLO", sum(trace.hlo is not None for trace in traces)),
    ):
        found += [stage if count == 1 else f"{count} × {stage}"] if count else []
    return found


def _stages(trace: Trace, which: str, sources: Sequence[Source], caps: Caps) -> list[Block]:
    folds: list[Block] = []
    if trace.program:
        folds.append(_jaxpr(trace.program, which, sources, caps))
    for name, listing in (("StableHLO", trace.stablehlo), ("Optimized HLO", trace.hlo)):
        if listing:
            folds.append(_listing(name + which, listing, caps))
    return folds


def _jaxpr(program: Program, which: str, sources: Sequence[Source], caps: Caps) -> Fold:
    summary = f"jaxpr{which}, {counted(program.equations, 'equation')}"
    text = Preformatted(partial(program_text, program, sources, caps.equations))
    return Fold(line(summary), (text,), optional=True)


def _listing(name: str, listing: Listing, caps: Caps) -> Fold:
    left_out = max(0, len(listing.text) - caps.listing) + listing.dropped
    text = Preformatted(lambda: listing.text[: caps.listing])
    said = Word(f", {amount(left_out, 'characters')} left out" if left_out else "", "dim")
    summary = line(f"{name}, {counted(len(listing.instructions), 'instruction')}", said)
    return Fold(summary, (text,) if listing.text else (), optional=True)
