"""Where jit is off: everywhere, only in some functions, or everywhere but in some."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jaxmagic.core.capture.ownership import IsUser, Subject
from jaxmagic.core.nojit.matching import Targets

Named = str | Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class NoJitOptions:
    """How to run without jit. The flags of `%%jaxnojit` and the keywords of `jaxmagic.nojit` both end here."""

    only: tuple[Named, ...] = ()
    """Functions to run in plain Python, all else staying compiled; every function where empty."""
    excluded: tuple[Named, ...] = ()
    """Functions that stay compiled."""
    budget: float | None = None
    """Seconds after which the cell is stopped, between two lines."""
    compare: bool = False
    """Keep what it takes to compare the run with one under jit."""
    lasting: bool = False
    """This cell's run is one of many, until jit is switched on again."""

    def __post_init__(self) -> None:
        if self.only and self.excluded:
            raise ValueError("give either the functions to run in Python, or those to leave compiled")
        if self.budget is not None and self.budget <= 0:
            raise ValueError(f"the budget is in seconds and more than 0, got {self.budget:g}")


class Scope:
    """Decides for each jitted function whether its calls run in Python.

    JAX's own functions (`jnp.where`, `random.split`) stay compiled: nobody wants to step through those, and
    they would take most of the time.
    """

    def __init__(self, options: NoJitOptions, namespace: Mapping[str, Any], is_user: IsUser) -> None:
        self.kind: Literal["everywhere", "only", "except"] = (
            "only" if options.only else "except" if options.excluded else "everywhere"
        )
        self.targets = Targets(options.only or options.excluded, namespace, is_user)

    def __str__(self) -> str:
        names = ", ".join(self.targets.labels())
        return {"only": f"only in {names}", "except": f"everywhere but in {names}"}.get(self.kind, "everywhere")

    def covers(self, subject: Subject) -> bool:
        """Whether a jitted function is one to run in Python for its own sake."""
        if self.kind == "only":
            return self.targets.meant(subject) is not None
        return subject.owner != "jax" and self.targets.meant(subject) is None

    def leads_to_target(self, functions: Sequence[Any]) -> bool:
        """Whether functions must run in Python because they call one that is asked for."""
        return self.kind == "only" and any(map(self.targets.called_from, functions))


def shown(names: Sequence[Named]) -> tuple[str, ...]:
    """Functions given as objects or names, as names."""
    return tuple(each if isinstance(each, str) else getattr(each, "__qualname__", repr(each)) for each in names)
