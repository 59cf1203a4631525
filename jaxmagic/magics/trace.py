"""`%%jaxtrace`, line and cell."""

import argparse
from typing import TYPE_CHECKING, Any

from IPython.core.magic import line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from jaxmagic.magics.base import ReportMagics, common_flags

if TYPE_CHECKING:
    from jaxmagic.magics.cell import CellRun


@magics_class
class TraceMagics(ReportMagics):
    name = "jaxtrace"

    @magic_arguments()
    @argument("--fn", action="append", default=[], metavar="NAME", help="only this function (repeatable)")
    @argument("--no-retrace", action="store_true", help="do not look again at functions compiled earlier")
    @argument("--max-traces", type=int, metavar="N", help="stop when a function is traced more often")
    @argument("--hlo", action="store_true", help="StableHLO and optimized HLO of very large programs too")
    @argument("--no-hlo", action="store_true", help="leave StableHLO and optimized HLO out")
    @common_flags
    @no_var_expand
    @line_cell_magic
    def jaxtrace(self, line: str, cell: str | None = None) -> Any:
        """Shapes beside each line, every compiled function with its programs and cost, failures explained.

        `%%jaxtrace` on top of a cell, or `%jaxtrace STATEMENT`.
        """
        return self.run_either(line, cell)

    def run_for(self, title: str, flags: argparse.Namespace) -> "CellRun":
        from jaxmagic.core.recording import Options, Recording
        from jaxmagic.magics.cell import CellRun, cells_of

        options = Options(
            title=title,
            functions=tuple(flags.fn),
            modules=tuple(flags.module),
            retrace=self.settings.retrace and not flags.no_retrace,
            hlo=False if flags.no_hlo or not self.settings.hlo else flags.hlo or None,
            max_traces=flags.max_traces or self.settings.max_traces or None,
            backend=flags.backend or self.settings.backend or None,
            ignore=tuple(self.settings.ignore),
        )
        return CellRun(self.ipython, flags, Recording(options, cells_of(self.ipython)))
