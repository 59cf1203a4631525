"""Whose code it is, and where in it something stands."""

import ast
import json
import linecache
import sys
from pathlib import Path
from types import CodeType

import jax
import numpy
import pytest

import jaxmagic.records
from jaxmagic.core.source import spans as source
from jaxmagic.core.source import syntax
from jaxmagic.core.source.policy import Policy
from jaxmagic.core.source.stores import parameters, stores
from jaxmagic.records import Span

TEXT: str = '''\
import math


@decorator
def f(a, *rest, k=lambda q: q, **extra):
    """Says è."""
    x = a * 2; y = x
    self.h = (x +
              1)
    for i, j in a:
        x = i
    (first,
     second) = 1, 2
    with a as handle, y:
        global g
        g = 1
    ys = [u * x for u in a]
    return (x
            + y)


squares = [n * n for n in range(3)]
class C:
    q = 1
'''
FILE = "<ipython-input-3-abc>"


@pytest.fixture(autouse=True)
def known():
    linecache.cache[FILE] = (len(TEXT), None, list(map(str, TEXT.splitlines(keepends=True))), FILE)


def codes(code: CodeType) -> dict[str, CodeType]:
    """The code objects in one, by name."""
    found = {code.co_name: code}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= codes(constant)
    return found


@pytest.fixture
def compiled() -> dict[str, CodeType]:
    return codes(compile(TEXT, FILE, "exec"))


# -------------------------------------------------------------------------------------------- whose it is


@pytest.mark.parametrize(
    ("file", "user"),
    [
        (__file__, True),
        ("<ipython-input-3-abc>", True),
        ("/tmp/ipykernel_1234/987654.py", True),
        ("<timed exec>", True),
        ("/home/me/project/model.py", True),
        (json.__file__, False),
        (numpy.__file__, False),
        (jax.__file__, False),
        (jaxmagic.records.__file__, False),
        ("<string>", False),
        ("<frozen importlib._bootstrap>", False),
        ("<__array_function__ internals>", False),
    ],
)
def test_cells_and_own_files_are_the_users(file, user):
    assert Policy().is_user(file) == user


def test_a_package_can_be_watched_by_name():
    jax_only = Policy(modules=("jax",))
    assert jax_only.is_user(jax.__file__)
    assert not jax_only.is_user(numpy.__file__)


def test_a_submodule_can_be_watched_by_name():
    policy = Policy(modules=("numpy.linalg",))
    assert policy.is_user(str(Path(numpy.__file__).parent / "linalg" / "_linalg.py"))
    assert not policy.is_user(numpy.__file__)


def test_executed_text_is_the_users_when_its_source_is_known():
    assert not Policy().is_user("<my program>")
    linecache.cache["<my program>"] = (1, None, ["x = 1\n"], "<my program>")
    assert Policy().is_user("<my program>")


def test_a_file_can_be_named_the_users():
    assert Policy(files=("<string>",)).is_user("<string>")


def test_a_class_is_the_users_by_its_module():
    mine = type("Mine", (), {"__module__": __name__})
    assert Policy().owns(mine)
    assert Policy().owns(type("Cell", (), {"__module__": "__main__"}))
    assert not Policy().owns(json.JSONDecoder)
    assert not Policy().owns(int)


# ------------------------------------------------------------------------------------------ texts and nodes


def test_the_text_of_a_span_counts_bytes():
    linecache.cache["<è>"] = (1, None, ["è = x + y\n"], "<è>")
    assert source.text_of(Span("<è>", 1, 5, 1, 10)) == "x + y"


def test_the_text_of_several_lines():
    assert source.text_of(Span(FILE, 8, 13, 9, 16)) == "(x +\n              1)"


def test_the_text_is_empty_where_it_is_not_known():
    assert source.text_of(Span("<nowhere>", 1, 0, 1, 5)) == ""
    assert source.text_of(Span(FILE, 500, 0, 500, 5)) == ""
    assert source.tree("<nowhere>") is None


def test_text_that_was_told_is_known():
    source.remember("<timed exec>", "a = 1\nb = 2\n", first_line=3)
    assert source.text_of(Span("<timed exec>", 4, 0, 4, 5)) == "b = 2"
    assert source.statement_at("<timed exec>", 3) is not None
    assert source.source_record("<timed exec>").label == "timed cell"


def test_a_terminal_cell_is_labelled_by_its_number():
    record = source.source_record(FILE)
    assert (record.label, record.cell, record.text) == ("cell [3]", 3, TEXT)


def test_a_notebook_cell_is_labelled_by_the_number_given():
    assert source.source_record("/tmp/ipykernel_1/2.py", cell=7).label == "cell [7]"


def test_a_module_is_labelled_by_its_name():
    record = source.source_record(__file__)
    assert (record.label, record.cell) == ("test_source.py", None)
    assert record.text.startswith('"""Whose code it is')


def test_the_position_of_a_frame_is_the_expression_it_evaluates():
    def where() -> Span:
        return source.position(sys._getframe(1))

    span = [where(), 1][0]
    assert isinstance(span, Span)
    assert source.text_of(span) == "where()"


@pytest.mark.parametrize(
    ("span", "kind"),
    [((7, 8, 7, 13), ast.BinOp), ((7, 8, 7, 9), ast.Name), ((17, 9, 17, 27), ast.ListComp), ((7, 8, 7, 12), None)],
)
def test_the_node_with_a_span_is_found(span, kind):
    node = source.node_at(Span(FILE, *span))
    assert (type(node) if node else None) == kind


def test_the_node_of_an_expression_statement_is_the_expression():
    linecache.cache["<call>"] = (1, None, ["f(x)\n"], "<call>")
    assert isinstance(source.node_at(Span("<call>", 1, 0, 1, 4)), ast.Call)


def test_the_statement_of_a_line_is_the_innermost():
    statement = source.statement_at(FILE, 11)
    assert statement is not None
    assert ast.unparse(statement) == "x = i"
    second = source.statement_at(FILE, 7, 16)
    assert second is not None
    assert ast.unparse(second) == "y = x"
    assert source.statement_at(FILE, 500) is None


# --------------------------------------------------------------------------------------- names and places


def test_names_are_known_by_line(compiled):
    names = source.stored_names(compiled["f"])
    assert names[7] == ("x", "y")
    assert names[8] == ("self.h",)
    assert names[10] == ("i", "j")
    assert (names[12], names[13]) == (("first",), ("second",))
    assert names[14] == ("handle",)
    assert set(names[17]) - {"u"} == {"ys"}


def test_the_variable_of_an_inlined_comprehension_belongs_to_it_alone(compiled):
    inside = [store for store in stores(compiled["f"])[17] if store.name == "u"]
    if sys.version_info >= (3, 12):
        assert [store.inside for store in inside] == [(17, 9, 17, 27)]
    else:
        assert inside == []
        assert source.stored_names(compiled["<listcomp>"]) == {22: ("n",)}


def test_a_global_is_known_as_one(compiled):
    (store,) = stores(compiled["f"])[16]
    assert (store.name, store.is_global) == ("g", True)


def test_parameters_are_named_and_found(compiled):
    code = compiled["f"]
    assert parameters(code) == ("a", "k", "rest", "extra")
    texts = {name: source.text_of(syntax.parameter_span(code, name)) for name in parameters(code)}
    assert texts == {"a": "a", "k": "k", "rest": "rest", "extra": "extra"}
    assert syntax.parameter_span(compiled["<lambda>"], "q") == Span(FILE, 5, 25, 5, 26)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x", "x = a * 2"),
        ("y", "y = x"),
        ("self.h", "self.h = (x +\n              1)"),
        ("i", "for i, j in a"),
        ("second", "(first,\n     second) = 1, 2"),
        ("handle", "with a as handle, y"),
        ("ys", "ys = [u * x for u in a]"),
    ],
)
def test_the_statement_that_stores_a_name_is_found(compiled, name, text):
    places = [store.position for each in stores(compiled["f"]).values() for store in each if store.name == name]
    assert source.text_of(syntax.statement_span(FILE, places[0])) == text


@pytest.mark.parametrize(
    ("text", "definitions"),
    [
        ("def f(x):\n    g = lambda p: p\n    return g(x)\n", {"f": (1, 0), "f.<locals>.<lambda>": (2, 8)}),
        ("@wrap\ndef f(x):\n    return (lambda p: p)(x)\n", {"f": (2, 0), "f.<locals>.<lambda>": (3, 12)}),
        ("def f():\n    def f():\n        return 1\n    return f\n", {"f": (1, 0), "f.<locals>.f": (2, 4)}),
        ("def f():\n    @wrap\n    def f():\n        return 1\n    return f\n", {"f": (1, 0), "f.<locals>.f": (3, 4)}),
        ("y = lambda a: lambda b: b\n", {"<lambda>": (1, 4), "<lambda>.<locals>.<lambda>": (1, 14)}),
        ("def f(x):\n    return [lambda: y for y in x]\n", {"f": (1, 0)}),
        ("class f:\n    f = lambda self: 1\n", {"f": (1, 0), "f.<lambda>": (2, 8)}),
    ],
)
def test_a_function_is_not_taken_for_one_that_stands_first_inside_of_it(text, definitions):
    source.remember("<nested>", text)
    found = {code.co_qualname: syntax.definition_span(code) for code in codes_within(compile(text, "<nested>", "exec"))}
    assert {name: (found[name].line, found[name].column) for name in definitions} == definitions


def codes_within(code: CodeType) -> list[CodeType]:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return inner + [each for outer in inner for each in codes_within(outer)]


def test_a_definition_is_found_without_its_decorators(compiled):
    span = syntax.definition_span(compiled["f"])
    assert (span.line, span.column, span.end_line) == (5, 0, 19)
    assert source.text_of(syntax.definition_span(compiled["<lambda>"])) == "lambda q: q"
    assert syntax.definition_span(compiled["C"]).line == 23


def test_without_source_the_bytecode_still_tells_the_lines():
    code = codes(compile("def f(a):\n    x = a\n    return x\n", "<no source>", "exec"))["f"]
    assert source.stored_names(code) == {2: ("x",)}
    assert syntax.definition_span(code) == Span("<no source>", 1, 0, 1, 0)
    assert syntax.parameter_span(code, "a") == Span("<no source>", 1, 0, 1, 0)
    assert syntax.statement_span("<no source>", (2, 4, 2, 5)) == Span("<no source>", 2, 4, 2, 5)


def test_without_columns_the_lines_remain():
    assert syntax.statement_span(FILE, (11, -1, 11, -1)) == Span(FILE, 11, 8, 11, 13)
