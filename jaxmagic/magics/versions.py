"""Which cell of a notebook each execution was of, so far as the front end tells: an edited cell stays the same."""

from weakref import WeakKeyDictionary

from IPython.core.interactiveshell import InteractiveShell

_identities: WeakKeyDictionary[InteractiveShell, dict[int, str]] = WeakKeyDictionary()


def identities_of(shell: InteractiveShell) -> dict[int, str]:
    """The cells' identities by execution count."""
    return _identities.setdefault(shell, {})
