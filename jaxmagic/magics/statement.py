"""A piece of the user's code: a magic's statement as it was typed, or the rest of its cell."""

import ast
import linecache
import sys
from types import CodeType, FrameType
from typing import Any, NamedTuple

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils._process_common import arg_split


def typed(line: str, words: list[str]) -> str:
    """The end of `line` that `words` were split from, with its spaces and quotes as typed."""
    starts = (at for at in range(len(line)) if line.startswith(words[0], at))
    return next(line[at:] for at in starts if arg_split(line[at:]) == words)


class Piece(NamedTuple):
    """Code that can run any number of times."""

    tree: ast.Module
    code: CodeType
    """All but the last expression."""
    last: CodeType | None

    def run(self, namespace: dict[str, Any]) -> Any:
        """Runs it; the value, if it ends in an expression."""
        __tracebackhide__ = True
        exec(self.code, namespace)
        return None if self.last is None else eval(self.last, namespace)


def piece_of_statement(shell: InteractiveShell, statement: str) -> Piece:
    text = shell.transform_cell(statement)
    file = shell.compile.cache(text, _number_of_running_cell(shell), raw_code=statement)
    return _piece(shell, ast.parse(text, file), file)


def _number_of_running_cell(shell: InteractiveShell) -> int:
    """IPython may have counted on before the cell runs."""
    numbers: dict[str, int] = getattr(shell.compile, "_filename_map", {})
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename not in numbers:
        frame = frame.f_back
    return shell.execution_count if frame is None else numbers[frame.f_code.co_filename]


def piece_of_cell(shell: InteractiveShell, frame: FrameType) -> Piece:
    """The cell that runs in a frame, without the call that stands for our magic's line.

    Raises:
        UsageError: The cell's text is not known, or it waits with `await`, which no second run can.
    """
    file = frame.f_code.co_filename
    text = "".join(linecache.getlines(file))
    if not text:
        raise UsageError("a cell that runs under another magic can't be run twice; put ours alone on top.")
    tree = ast.parse(text, file)
    tree.body = [node for node in tree.body if not _is_our_call(node)]
    try:
        return _piece(shell, tree, file)
    except SyntaxError:
        raise UsageError("a cell with a top-level `await` can't be run twice.") from None


def _is_our_call(node: ast.stmt) -> bool:
    return ast.unparse(node).startswith("__import__('jaxmagic.hooks')")


def _piece(shell: InteractiveShell, tree: ast.Module, file: str) -> Piece:
    whole = shell.transform_ast(tree)
    silent = bool(whole.body) and isinstance(whole.body[-1], ast.Expr)
    last = whole.body[-1] if silent else None
    before = ast.Module(whole.body[:-1] if silent else whole.body, [])
    expression = compile(ast.Expression(last.value), file, "eval") if isinstance(last, ast.Expr) else None
    return Piece(whole, compile(before, file, "exec"), expression)
