"""The statement of a line magic: as it was typed, and run as if it stood in the cell."""

import ast
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils._process_common import arg_split


def typed(line: str, words: list[str]) -> str:
    """The end of `line` that `words` were split from, with its spaces and quotes as typed."""
    starts = (at for at in range(len(line)) if line.startswith(words[0], at))
    return next(line[at:] for at in starts if arg_split(line[at:]) == words)


def run_statement(shell: InteractiveShell, statement: str) -> Any:
    """Runs a statement in the user's namespace; the value, if it is an expression."""
    __tracebackhide__ = True
    text = shell.transform_cell(statement)
    file = shell.compile.cache(text, shell.execution_count, raw_code=statement)
    tree = shell.transform_ast(ast.parse(text, file))
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, file, "exec"), shell.user_ns)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), file, "eval"), shell.user_ns)
