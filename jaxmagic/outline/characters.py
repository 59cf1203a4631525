"""Any string → characters that can do no harm in a terminal or a page, and how wide they are."""

import unicodedata

LONGEST = 2000
"""Characters of one word that are worth showing."""

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_JOINERS = "\u200c\u200d"
"""Format characters that Persian, Indic scripts and emoji need inside words."""


def visible(text: str, most: int = LONGEST) -> str:
    r"""The same text with every control and direction character spelled out, cut after `most` characters.

    Example:
        >>> visible("a\u202eb\x1b[31m")
        'a⟨U+202E⟩b⟨U+001B⟩[31m'
    """
    if text.isascii() and text.isprintable() and len(text) <= most:
        return text
    if len(text) > most:
        text = text[: most - 1] + "…"
    return "".join(map(_visible_character, text))


def _visible_character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character in _JOINERS or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return character
    return f"⟨U+{ord(character):04X}⟩"


def short(text: str, most: int) -> str:
    """The beginning of a name or value, with … for the rest."""
    return text if len(text) <= most else text[: most - 1] + "…"


def columns(text: str) -> int:
    """How many columns a terminal gives the text: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(_columns_of(character) for character in text)


def cropped(text: str, most: int) -> str:
    """The text in at most so many columns, with … for the rest."""
    if columns(text) <= most:
        return text
    kept, used = [], 1
    for character in text:
        used += _columns_of(character)
        if used > most:
            break
        kept.append(character)
    return "".join(kept) + "…"


def _columns_of(character: str) -> int:
    if unicodedata.combining(character) or character in _JOINERS:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
