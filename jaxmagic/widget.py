"""The one widget: it carries a payload to the panel and knows nothing of what is in it."""

import pathlib

import anywidget
import traitlets

_STATIC = pathlib.Path(__file__).parent / "static"


def is_built() -> bool:
    """False in a source checkout whose front end was never built; the static views still work there."""
    return (_STATIC / "widget.js").is_file()


class Panel(anywidget.AnyWidget):
    """The panel below a cell. `payload` is a `jaxmagic.records.Payload` as plain data."""

    _esm = _STATIC / "widget.js"
    payload = traitlets.Dict().tag(sync=True)
