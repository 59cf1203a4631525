"""What is said before a cell runs more than once: which of its side effects will happen again."""

import ast

_WRITES = (
    "write",
    "write_text",
    "write_bytes",
    "save",
    "savez",
    "savefig",
    "to_csv",
    "dump",
    "unlink",
    "remove",
    "mkdir",
)
_MODULES = ("os", "shutil", "subprocess", "requests", "urllib", "socket", "sqlite3", "wandb", "mlflow")
_FUNCTIONS = ("open", "input", "exec", "display", "run_line_magic", "run_cell_magic", "system", "getoutput")


def announcement(tree: ast.AST, uncopied: tuple[str, ...]) -> str:
    """The text to show first.

    Args:
        tree: Of the cell.
        uncopied: Variables that can't be copied.
    """
    lines = [
        "This cell runs twice, with jit (on copies of the variables it reads, output hidden) and then without; "
        "if the results differ, a third time to find the line."
    ]
    found = effects(tree)
    if found:
        lines.append(f"What it does to the outside is done each time: {', '.join(found)}.")
    if uncopied:
        lines.append(f"Not copied, so shared by all runs: {', '.join(uncopied)}.")
    return "\n".join(lines)


def effects(tree: ast.AST) -> list[str]:
    """Calls in a cell that look as if they reach outside of the notebook, with their lines."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _reaches_out(node.func))
    return list(dict.fromkeys(f"`{ast.unparse(node.func)}` on line {node.lineno}" for node in calls))


def _reaches_out(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in _FUNCTIONS
    if isinstance(function, ast.Attribute):
        first = function.value
        while isinstance(first, ast.Attribute):
            first = first.value
        return function.attr in (*_WRITES, *_FUNCTIONS) or (isinstance(first, ast.Name) and first.id in _MODULES)
    return False
