"""A report of some functions only, as `--fn NAME` asks."""

import difflib

import msgspec

from jaxmagic.records import Report


def only(report: Report, names: tuple[str, ...]) -> Report:
    """Keeps the calls, hints and compiled functions with these names; a name that nothing bears is said in `limits`.

    Args:
        report: Complete.
        names: `step`, or qualified: `Model.__call__`. All functions where empty.
    """
    if not names:
        return report
    calls = tuple(call for call in report.calls if _is_named(call.function, names))
    kept = {call.id for call in calls}
    return msgspec.structs.replace(
        report,
        calls=calls,
        hints=tuple(hint for hint in report.hints if hint.call in kept),
        compiled=tuple(one for one in report.compiled if _is_named(one.name, names)),
        limits=(*report.limits, *_unmet(report, names)),
    )


def _is_named(function: str, names: tuple[str, ...]) -> bool:
    return function in names or function.rpartition(".")[2] in names


def _unmet(report: Report, names: tuple[str, ...]) -> list[str]:
    there = {call.function for call in report.calls} | {one.name for one in report.compiled if not one.library}
    there.discard("<module>")
    lines = []
    for name in names:
        if not any(_is_named(one, (name,)) for one in there):
            near = difflib.get_close_matches(name, there, 3, 0.4) or sorted(there)[:8]
            lines.append(f"--fn {name}: no such function ran in this cell; there were {', '.join(near) or 'none'}")
    return lines
