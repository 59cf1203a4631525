"""HTML by construction: every string becomes escaped text, and only harmless tags and attributes can be written."""

from html import escape
from typing import NamedTuple

from jaxmagic.outline.characters import visible

TAGS = frozenset(
    {"code", "details", "div", "li", "mark", "p", "pre", "span", "strong", "summary"}
    | {"table", "tbody", "td", "th", "thead", "tr", "ul"}
)
ATTRIBUTES = frozenset({"class", "open", "scope", "style"})
STYLES = frozenset({"text-align: left", "text-align: right"})
"""What `style` may be: JupyterLab aligns every table cell on the right, with a rule that wins over a style sheet."""


class Markup(NamedTuple):
    """Text that is HTML already. Only this module makes it."""

    html: str


Child = Markup | str


def element(tag: str, *children: Child, **attributes: str | bool | None) -> Markup:
    """One element.

    Args:
        tag: One of `TAGS`.
        *children: Markup as it stands; strings as text, with control characters spelled out.
        **attributes: From `ATTRIBUTES`, `class_` for `class`, `style` from `STYLES`; None and False are left out.

    Raises:
        ValueError: A tag or an attribute that a static page has no use for.

    Example:
        >>> element("p", "a < b", class_="note").html
        '<p class="note">a &lt; b</p>'
    """
    names = {name.rstrip("_"): value for name, value in attributes.items()}
    if tag not in TAGS or not names.keys() <= ATTRIBUTES:
        raise ValueError(f"No <{tag} {' '.join(names)}> in a static page; allowed are {sorted(TAGS | ATTRIBUTES)}")
    if names.get("style", "text-align: left") not in STYLES:
        raise ValueError(f"No style {names['style']!r} in a static page; allowed are {sorted(STYLES)}")
    written = "".join(_attribute(name, value) for name, value in names.items() if value not in (None, False, ""))
    return Markup(f"<{tag}{written}>{joined(*children).html}</{tag}>")


def joined(*children: Child) -> Markup:
    """Several pieces, one after the other."""
    return Markup("".join(child.html if isinstance(child, Markup) else escape(visible(child)) for child in children))


def text_lines(text: str, most: int) -> Markup:
    """Many lines of text for a `<pre>`, each cut after `most` characters."""
    return Markup(escape("\n".join(visible(line, most) for line in text.split("\n"))))


def style_sheet(css: str) -> Markup:
    """A style element; `css` is ours, never the user's."""
    return Markup(f"<style>{css}</style>")


def _attribute(name: str, value: str | bool | None) -> str:
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
