"""One cell without jit: the switch, and everything that watches what it shows."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from jaxmagic.core.limits import Limits
from jaxmagic.core.lines.frames import Listener, Watcher
from jaxmagic.core.nojit.budget import Budget, alarm
from jaxmagic.core.nojit.lasting import Lasting
from jaxmagic.core.nojit.ledger import Ledger
from jaxmagic.core.nojit.reached import Reached
from jaxmagic.core.nojit.remaining import Remaining
from jaxmagic.core.nojit.scope import NoJitOptions, Scope
from jaxmagic.core.nojit.steps import Progress, Steps
from jaxmagic.core.nojit.switch import Switch
from jaxmagic.core.nojit.trail import Trail
from jaxmagic.core.nojit.values import ValueRecord
from jaxmagic.core.source.policy import Policy
from jaxmagic.records import NoJit


class Experiment:
    """Everything of a recording that is there only without jit.

    Args:
        options: Where jit is off.
        namespace: The user's variables, in which names of functions are looked up.
        policy: Whose files.
        limits: What could not be done.
        tell: Is told of progress in work longer than two seconds.
    """

    def __init__(
        self,
        options: NoJitOptions,
        namespace: Mapping[str, Any],
        policy: Policy,
        limits: Limits,
        tell: Callable[[Progress], None] | None = None,
    ) -> None:
        self._options = options
        self._ledger = Ledger(policy.is_user, self._operation)
        self._steps = Steps(tell, lambda: self._ledger.operations)
        self._scope = Scope(options, namespace, policy.is_user)
        self._switch = Switch(self._scope, self._ledger, self._steps, policy.is_user, limits)
        self._values = ValueRecord(policy, self._switch.is_off_here)
        self.trail = Trail(policy, self._switch.is_off_here, limits) if options.compare else None
        """Every value in order, where the run is to be compared with another."""
        self._remaining = Remaining(policy, self._scope.kind == "everywhere")
        self._reached = Reached(self._scope.targets, namespace)
        self._budget = Budget(options.budget, self._steps)
        self._watcher: Watcher | None = None
        self._undo = ExitStack()

    def listeners(self) -> dict[str, Listener]:
        """Who is to be told of the user's frames, by what they observe; the budget last, since it may stop the cell."""
        trail: dict[str, Listener] = {} if self.trail is None else {"where the runs part": self.trail}
        return trail | {
            "real values beside lines": self._values,
            "what stayed traced": self._remaining,
            "which functions ran in Python": self._reached,
            "the budget": self._budget,
        }

    def start(self, watcher: Watcher) -> None:
        if Lasting.current is not None:
            self._undo.enter_context(Lasting.current.suspended())
        self._watcher = watcher
        self._undo.callback(self._switch.stop)
        self._switch.start()
        if self._options.budget is not None:
            self._undo.callback(alarm(self._options.budget, watcher.wake))
        self._steps.start()

    def stop(self) -> None:
        self._undo.close()
        self._watcher = None
        self._values.finish()

    def record(self) -> NoJit:
        """What was seen, once it is stopped."""
        return NoJit(
            scope=str(self._scope),
            lasting=self._options.lasting,
            functions=self._ledger.functions(),
            operations=self._ledger.operations,
            costs=self._ledger.costs(),
            values=self._values.values(),
            runs=self._values.runs,
            traced=self._remaining.traced(),
            unreached=self._reached.unreached(self._ledger.codes()) if self._scope.kind == "only" else (),
            stopped=self._budget.stopped,
        )

    def _operation(self) -> None:
        """After each program sent to the device."""
        self._steps.tick()
        if self._budget.over and self._watcher is not None:
            self._watcher.rearm()  # lines that had become silent must be heard, for the cell to end at one
