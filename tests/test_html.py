"""The report as a static page: no script whatever is in it, readable without its style sheet, never too large."""

import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from jaxmagic import html
from jaxmagic.elements import ATTRIBUTES, TAGS, element
from jaxmagic.outline.characters import visible
from jaxmagic.records import (
    Aval,
    Call,
    Compiled,
    Equation,
    Finding,
    Hint,
    Leaf,
    Listing,
    Program,
    Reason,
    Region,
    Report,
    Source,
    Span,
    Trace,
    Variable,
    Versions,
)

SAMPLES = (
    "comparison",
    "empty",
    "failed",
    "findings",
    "hostile",
    "interrupted",
    "mlp",
    "nojit",
    "plain_python",
    "retraces",
    "running",
    "taps",
)
Sample = Callable[[str], Report]


class Page(HTMLParser):
    """What a browser would make of a page: its tags, attributes and text; fails on tags that don't nest."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.rows: list[int] = []
        self._open: list[str] = []
        self._text: list[str] = []
        self.feed(source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._open.append(tag)
        if tag == "tr":
            self.rows.append(0)
        if tag in ("td", "th"):
            self.rows[-1] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self._text.append(data)

    @property
    def text(self) -> str:
        return "".join(self._text)


def big(equations: int, lines: int) -> Report:
    """A report too large for a page: a long program and a hint on each line of a long cell."""
    aval = Aval((128, 128), "float32")
    code = "\n".join(f"value_{i} = jnp.tanh(value_{i - 1} @ weights[{i}])" for i in range(1, lines + 1))
    leaf = Leaf(path="", aval=aval, kind="array")
    hints = tuple(Hint(Span("c", i, 0, i, 9), "f", 0, f"value_{i}", "assigned", (leaf,)) for i in range(1, lines + 1))
    body = tuple(Equation("tanh", (i,), (Variable(i + 1, aval),), params="accuracy=None") for i in range(equations))
    program = Program(Region("jit", "f", (Variable(0, aval),), (), (equations,), body), (), equations)
    listing = Listing("hlo", "%tanh = f32[128,128] tanh(%p)\n" * equations, (), ())
    trace = Trace(Reason("first call"), calls=1, program=program, stablehlo=listing, hlo=listing)
    findings = tuple(
        Finding(f"rule-{i}", "slow", Span("c", i, 0, i, 9), f"title {i}", "why " * 50) for i in range(1, lines + 1)
    )
    return Report(
        mode="jaxtrace",
        state="finished",
        title="%%jaxtrace",
        versions=Versions("0", "0", "0", "0"),
        sources=(Source("c", "cell [1]", 1, code),),
        calls=(Call(0, "f", Span("c", 1, 0, lines, 9), True, ("jit f",)),),
        hints=hints,
        compiled=tuple(Compiled(i, f"f{i}", "jit", None, traces=(trace,)) for i in range(30)),
        findings=findings,
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_a_page_has_no_script_no_link_and_no_handler(name: str, sample: Sample):
    page = Page(html.render(sample(name)))
    assert set(page.tags) <= TAGS | {"style"}
    assert {key for key, _ in page.attributes} <= ATTRIBUTES
    assert all(re.fullmatch(r"[a-z: -]+|", value or "") for _, value in page.attributes)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_row_of_a_table_has_the_cells_of_its_head(name: str, sample: Sample):
    source = html.render(sample(name))
    for table in re.findall(r"<table>.*?</table>", source, re.DOTALL):
        assert len(set(Page(table).rows)) == 1


def test_hostile_strings_come_out_as_the_text_they_are(sample: Sample):
    text = Page(html.render(sample("hostile"))).text
    for said in (
        "<img src=x onerror=alert(1)>",
        '"""</pre></details><script>alert(1)</script>"""',
        "' \" ` & &lt; javascript:alert(1) ]]> -->",
        "⟨U+202E⟩evil⟨U+202C⟩",
        "⟨U+001B⟩[31mred",
        "名前 = x + 1",
    ):
        assert said in text


@pytest.mark.parametrize("name", SAMPLES)
def test_a_page_has_no_control_or_direction_character(name: str, sample: Sample):
    source = html.render(sample(name))
    assert [line for line in source.split("\n") if line != visible(line, len(line))] == []


@pytest.mark.parametrize("name", ["failed", "nojit", "retraces"])
def test_a_page_is_as_in_the_golden_file(name: str, sample: Sample, golden: Callable[[str, str], None]):
    golden(f"{name}.html", html.render(sample(name)))


def test_the_failing_expression_is_marked_and_has_carets_below(sample: Sample):
    source = html.render(sample("failed"))
    assert "<mark>x @ w</mark>" in source
    assert re.search(r"\n<span[^>]*>|\n +", source)
    assert "^^^^^" in Page(source).text


def test_a_program_is_there_folded_away(sample: Sample):
    source = html.render(sample("mlp"))
    assert "<details><summary>jaxpr, 40 equations</summary><pre>" in source
    assert "dot_general" in Page(source).text


@pytest.mark.parametrize(("equations", "lines"), [(10, 10), (2_000, 10), (10, 2_000), (20_000, 5_000)])
def test_a_page_stays_below_its_cap_and_says_what_is_missing(equations: int, lines: int):
    report = big(equations, lines)
    source = html.render(report)
    assert len(source.encode()) <= html.MOST_BYTES
    if equations > 10 or lines > 10:
        assert re.search(
            r"Left out to keep the page small|… and [\d,]+ more finding|more lines with", Page(source).text
        )


def test_a_cap_too_small_for_anything_still_gives_a_page(sample: Sample):
    text = Page(html.render(sample("hostile"), most_bytes=100)).text
    assert "too large for a page" in text


def test_a_page_is_the_same_each_time(sample: Sample):
    assert html.render(sample("findings")) == html.render(sample("findings"))


def test_an_unknown_tag_or_attribute_is_refused():
    with pytest.raises(ValueError, match="onclick"):
        element("p", "text", onclick="alert(1)")
    with pytest.raises(ValueError, match="script"):
        element("script", "alert(1)")
    with pytest.raises(ValueError, match="position"):
        element("td", style="position: fixed")


def test_the_style_sheet_names_only_its_own_page_and_loads_nothing(sample: Sample):
    css = re.search(r"<style>(.*?)</style>", html.render(sample("empty")), re.DOTALL)
    assert css is not None
    selectors = re.findall(r"^\s*([^@{}\n][^{}\n]*)\{", css[1], re.MULTILINE)
    assert all(part.strip().startswith("div.jaxmagic-report") for names in selectors for part in names.split(","))
    assert "url(" not in css[1]
    assert "@import" not in css[1]


def test_text_in_a_page_has_no_markup_of_its_own(sample: Sample):
    report = replace(sample("empty"), title="%%jaxtrace <b>&amp;</b>")
    assert "%%jaxtrace <b>&amp;</b>" in Page(html.render(report)).text
