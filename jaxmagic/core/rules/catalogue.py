"""The list of rules: what each is called, how grave it is, and what its documentation says."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from jaxmagic.core.limits import Limits
from jaxmagic.core.rules.contexts import Failing, Observed
from jaxmagic.core.source import spans as source
from jaxmagic.records import Evidence, Finding, Record, Severity, Span


class RuleInfo(Record, frozen=True):
    """One entry of the catalogue."""

    id: str
    """Stable and kebab-case, as in `Finding.rule`."""
    severity: Severity
    summary: str
    """What it reports, in one line."""
    documentation: str
    """What it sees, why it matters, how sure it is."""
    family: str
    """The file it stands in: `concretization`, `shapes`, …"""
    looks_at: Literal["exception", "cell"]


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What a rule found; the catalogue adds the rule's name and severity."""

    title: str
    explanation: str
    span: Span | None = None
    """Of the finding; the failing expression where None."""
    evidence: tuple[Evidence, ...] = ()
    fix: str = ""
    replaces: Span | None = None
    """What `fix` stands in for."""
    sure: bool = True


FAMILIES = (
    "leaks",
    "filtered",
    "equinox",
    "layer_keys",
    "optimizers",
    "losses",
    "solvers",
    "solutions",
    "numpyro",
    "halves",
    "statics",
    "conditions",
    "unpacking",
    "conversions",
    "indexing",
    "carries",
    "choices",
    "mapping",
    "custom_derivatives",
    "positions",
    "gradients",
    "shardings",
    "mesh_axes",
    "bodies",
    "not_numbers",
    "signatures",
    "closures",
    "arguments",
    "buffers",
    "callbacks",
    "nonfinite",
    "nans",
    "linen",
    "nnx",
    "nnx_idioms",
    "train_states",
    "annotations",
    "layers",
    "trees",
    "tree_arithmetic",
    "operands",
    "shapes",
    "frozen",
    "dropped",
    "broadcasting",
    "reductions",
    "bounds",
    "aliasing",
    "precision",
    "promotion",
    "rounding",
    "stale",
    "effects",
    "keys",
    "captured_keys",
    "printing",
    "per_device",
    "host",
    "hosting",
    "branching",
    "timing",
    "elements",
    "retraces",
    "sizes",
)
"""In the order in which an exception is shown to them: the last has a rule for any shape error."""

_IGNORE = re.compile(r"#.*\bjaxmagic: ignore(?:\[([^\]]*)\])?")

OF_PROGRAMS = (
    "big-constant",
    "both-branches-run",
    "effect-once",
    "loop-unrolled",
    "new-function-each-time",
    "retraced",
    "stale-program",
    "weak-type-retrace",
)
"""Rules about the programs that were compiled: these hold taps under `%%jaxtap`, and don't exist under `%%jaxnojit`."""

_OTHERWISE = ("nan-shown",)
"""Rules that have nothing to say where a wrong result is explained."""

ErrorRule = Callable[[Failing], Cause | None]
CellRule = Callable[[Observed], Iterable[Cause]]

_error_rules: list[tuple[RuleInfo, ErrorRule]] = []
_cell_rules: list[tuple[RuleInfo, CellRule]] = []


def _ordered(registered: list[tuple[RuleInfo, Any]]) -> list[tuple[RuleInfo, Any]]:
    return sorted(registered, key=lambda pair: FAMILIES.index(pair[0].family))


def on_error(id: str, summary: str) -> Callable[[ErrorRule], ErrorRule]:  # noqa: A002 - it is the rule's id
    """Registers a rule that explains an exception. The docstring is its documentation."""

    def register(rule: ErrorRule) -> ErrorRule:
        _error_rules.append((_info(rule, id, "error", summary, "exception"), rule))
        return rule

    return register


def on_cell(id: str, severity: Severity, summary: str) -> Callable[[CellRule], CellRule]:  # noqa: A002
    """Registers a rule that looks at a finished cell. The docstring is its documentation."""

    def register(rule: CellRule) -> CellRule:
        _cell_rules.append((_info(rule, id, severity, summary, "cell"), rule))
        return rule

    return register


def _info(rule: Any, name: str, severity: Severity, summary: str, looks_at: Literal["exception", "cell"]) -> RuleInfo:
    lines = (rule.__doc__ or "").strip().splitlines()
    text = "\n".join(line.strip() for line in lines)
    return RuleInfo(name, severity, summary, text, rule.__module__.rpartition(".")[2], looks_at)


def rules() -> tuple[RuleInfo, ...]:
    """Every rule jaxmagic knows, by family and then in the order they are tried."""
    return tuple(info for info, _ in _ordered([*_error_rules, *_cell_rules]))


def diagnose(failing: Failing, limits: Limits) -> tuple[Finding, ...]:
    """The first rule that recognises an exception explains it: one cause, one finding."""
    for info, rule in _ordered(_error_rules):
        with limits.guard(f"rule {info.id}"):
            cause = rule(failing)
            if cause is not None:
                finding = _finding(info, cause, cause.span or failing.span)
                return () if silenced(finding) else (finding,)
    return ()


def silenced(finding: Finding) -> bool:
    """Whether a comment on its first line says `# jaxmagic: ignore[rule]`, or `# jaxmagic: ignore` for any rule."""
    if finding.span is None:
        return False
    lines = source.lines_of(finding.span.file)[finding.span.line - 1 : finding.span.line]
    comment = _IGNORE.search(lines[0]) if lines else None
    return comment is not None and (not comment[1] or finding.rule in re.split(r"[\s,]+", comment[1]))


def observe(observed: Observed) -> tuple[Finding, ...]:
    """Everything the rules find in a finished cell; what is found twice is counted, not repeated."""
    found: dict[tuple[str, Span | None, str], Finding] = {}
    explained = [finding.span for finding in observed.failure.findings] if observed.failure is not None else []
    for info, rule in _ordered(_cell_rules):
        with observed.limits.guard(f"rule {info.id}"):
            for cause in rule(observed):
                if cause.span is not None and cause.span in explained:
                    continue
                key = (info.id, cause.span, cause.title)
                times = found[key].times + 1 if key in found else 1
                found[key] = _finding(info, cause, cause.span, times)
    explains = any(finding.severity == "wrong-result" for finding in found.values())
    kept = [finding for finding in found.values() if not (explains and finding.rule in _OTHERWISE)]
    return tuple(finding for finding in kept if not silenced(finding))


def _finding(info: RuleInfo, cause: Cause, span: Span | None, times: int = 1) -> Finding:
    return Finding(
        rule=info.id,
        severity=info.severity,
        span=span,
        title=cause.title,
        explanation=cause.explanation,
        evidence=cause.evidence,
        fix=cause.fix,
        replaces=cause.replaces if cause.fix else None,
        sure=cause.sure,
        times=times,
    )
