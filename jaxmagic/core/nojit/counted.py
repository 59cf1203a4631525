"""How many programs are sent to the device while a block runs."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from jaxmagic.core import jax_internals
from jaxmagic.core.capture.counting import after_each_call
from jaxmagic.core.nojit.ledger import Ledger
from jaxmagic.core.wrapping import wrapped

jax_internals.exclude_from_tracebacks(__file__)


@contextmanager
def operations_counted(ledger: Ledger) -> Iterator[Ledger]:
    """Has a ledger told of every program: by JAX's fast path, and by the slow one, which each takes once."""

    def dispatch(inner: Any, *args: Any, **params: Any) -> Any:
        __tracebackhide__ = True
        answer = inner(*args, **params)
        ledger.dispatched()
        return answer

    with ExitStack() as undo:
        undo.enter_context(wrapped("call_impl", dispatch))
        undo.enter_context(after_each_call(ledger.dispatched))
        ledger.start()
        yield ledger
