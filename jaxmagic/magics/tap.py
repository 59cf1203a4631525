"""`%%jaxtap`: named values out of running programs, live."""

import argparse
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from jaxmagic.magics.base import ReportMagics, bare, report_flags

if TYPE_CHECKING:
    from jaxmagic.core.taps.taps import TapOptions
    from jaxmagic.magics.cell import CellRun


@magics_class
class TapMagics(ReportMagics):
    name = "jaxtap"

    @magic_arguments()
    @argument("names", nargs="*", help="loss, f.y, model.*, params['w1']; none: every array of your functions")
    @argument("--grad", action="store_true", help="also the gradients with respect to these values")
    @argument(
        "--when",
        metavar="COND",
        help="only values for which it holds: nan, inf (and where they came from), or an expression in jnp over x",
    )
    @argument("--stop-when", metavar="COND", help="stop the program at the first value for which it holds")
    @argument("--alert", metavar="COND", help="mark values for which it holds")
    @argument("--every", type=int, default=1, metavar="N", help="only every Nth value")
    @argument("--first", type=int, metavar="N", help="keep the first N values of each name")
    @argument("--last", type=int, metavar="N", help="keep the last N values of each name")
    @argument("--stats", dest="keep", action="store_const", const="stats", help="only statistics, made on the device")
    @argument("--values", dest="keep", action="store_const", const="values", help="whole arrays, within a budget")
    @argument(
        "--auto", dest="keep", action="store_const", const="auto", help="the first for large arrays, else the second"
    )
    @argument(
        "--set",
        dest="replace",
        action="append",
        default=[],
        metavar="NAME=EXPR",
        help="a new value from the next line on",
    )
    @argument(
        "--call",
        metavar="FUNCTION",
        help="host function that sees each value; what it returns flows on",
    )
    @argument("--ring", action="store_true", help="loops of a million steps: values wait on the device")
    @report_flags
    @no_var_expand
    @line_cell_magic
    def jaxtap(self, line: str, cell: str | None = None) -> Any:
        """Stream values out of running jitted code by name, forward or gradient, without editing it.

        `%%jaxtap loss grads` on top of a cell, or `%jaxtap loss -- STATEMENT`.
        """
        return self.run_either(line, cell)

    def parsed(self, line: str) -> argparse.Namespace:
        words, _, statement = line.partition(" -- ")
        flags = parse_argstring(self.jaxtap, words)
        flags.statement = statement.strip()
        flags.names = [name for word in flags.names for name in word.split(",") if name]
        return flags

    def run_for(self, title: str, flags: argparse.Namespace) -> "CellRun":
        from jaxmagic.core.tapping import Tapping
        from jaxmagic.magics.cell import cells_of
        from jaxmagic.magics.tap_run import TapRun

        session = Tapping(
            flags.names,
            self._options(flags),
            title=title,
            modules=tuple(flags.module),
            backend=flags.backend or self.settings.backend or None,
            cells=cells_of(self.ipython),
        )
        session.ignored = frozenset(self.settings.ignore)
        return TapRun(self.ipython, flags, session)

    def _options(self, flags: argparse.Namespace) -> "TapOptions":
        from jaxmagic.core.taps.conditions import condition
        from jaxmagic.core.taps.taps import TapOptions

        names = self.ipython.user_ns
        try:
            return TapOptions(
                grad=flags.grad,
                keep=flags.keep or "auto",
                when=condition(bare(flags.when), names),
                stop_when=condition(bare(flags.stop_when), names),
                alert=condition(bare(flags.alert), names),
                every=flags.every,
                first=flags.first,
                last=flags.last,
                replace=dict(_replacement(text, names) for text in flags.replace),
                call=_function(flags.call, names) if flags.call else None,
                ring=flags.ring,
            )
        except SyntaxError as error:
            raise UsageError(f"%%jaxtap: {error.text!r} is not an expression: {error.msg}.") from None
        except ValueError as error:
            raise UsageError(f"%%jaxtap: {error}.") from None


def _replacement(text: str, names: dict[str, Any]) -> tuple[str, Any]:
    name, equals, expression = (bare(text) or "").partition("=")
    if not equals or not name.strip() or not expression.strip():
        raise UsageError(f'--set takes NAME=EXPR, as in --set "lr=lr * 0.5", got {text!r}.')
    name, expression = name.strip(), expression.strip()
    code = compile(expression, "<--set>", "eval")
    last = name.rpartition(".")[2]
    return name, lambda x: eval(code, {**names}, {"x": x, last: x})


def _function(text: str, names: dict[str, Any]) -> Any:
    try:
        found = eval(compile(bare(text) or "", "<--call>", "eval"), names)
    except Exception as error:  # noqa: BLE001 - the user's expression, said back to them
        raise UsageError(f"--call {text}: {type(error).__name__}: {error}.") from None
    if not callable(found):
        raise UsageError(f"--call takes a function, {text} is a {type(found).__name__}.")
    return found
