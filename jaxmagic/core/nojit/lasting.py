"""`%jaxnojit on`: jit stays off for later cells, until it is switched on again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from jaxmagic.core.limits import Limits
from jaxmagic.core.nojit.ledger import Ledger
from jaxmagic.core.nojit.scope import NoJitOptions, Scope
from jaxmagic.core.nojit.steps import Steps
from jaxmagic.core.nojit.switch import Switch
from jaxmagic.core.source.policy import Policy
from jaxmagic.records import NoJit


class Lasting:
    """Jit is off from `start` to `stop`. There is at most one, and `current` tells it."""

    current: "Lasting | None" = None

    def __init__(self, options: NoJitOptions, namespace: Mapping[str, Any]) -> None:
        self.options = options
        self._namespace = namespace
        self._policy = Policy()
        self._limits = Limits()
        self.scope = Scope(options, namespace, self._policy.is_user)
        self._ledger = Ledger(self._policy.is_user)
        self._switch: Switch | None = None

    def start(self) -> None:
        Lasting.current = self
        self._switch_off()

    def stop(self) -> None:
        self._switch_on()
        if Lasting.current is self:
            Lasting.current = None

    def new_cell(self) -> None:
        """Counts from here on."""
        self._switch_on()
        self._ledger = Ledger(self._policy.is_user)
        self._switch_off()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """While a cell says itself where jit is off."""
        self._switch_on()
        try:
            yield
        finally:
            self._switch_off()

    def record(self) -> NoJit:
        """What ran in Python since the cell began."""
        return NoJit(
            scope=str(self.scope),
            lasting=True,
            functions=self._ledger.functions(),
            operations=self._ledger.operations,
            costs=self._ledger.costs(),
        )

    def _switch_off(self) -> None:
        if self._switch is None:
            steps = Steps(None, lambda: 0)
            self._switch = Switch(self.scope, self._ledger, steps, self._policy.is_user, self._limits)
            self._switch.start()

    def _switch_on(self) -> None:
        switch, self._switch = self._switch, None
        if switch is not None:
            switch.stop()
