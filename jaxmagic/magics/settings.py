"""Defaults of the magics, as `%config JaxMagic` shows them."""

from traitlets import Bool, Int, List, Unicode
from traitlets.config import Configurable


class JaxMagic(Configurable):
    """Defaults of the magics: `%config JaxMagic.hlo = False`."""

    backend = Unicode("", help="Device to run on: cpu, gpu, tpu, cpu:1. Empty: JAX's own choice.").tag(config=True)
    hlo = Bool(True, help="Keep StableHLO and optimized HLO.").tag(config=True)
    retrace = Bool(True, help="Look again at functions that were compiled before the cell ran.").tag(config=True)
    quiet = Bool(False, help="Show nothing; `-o NAME` still hands over the report.").tag(config=True)
    max_traces = Int(0, help="Stop when a function is traced more often in one cell; 0: never.").tag(config=True)
    ignore = List(Unicode(), help='Rules that give no finding: ["float64-truncated"].').tag(config=True)
