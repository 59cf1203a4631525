"""`make bench`: the performance contract, measured and printed. `make bench ONLY=P4` for one row."""

import importlib
import sys

from rounds import print_table

MODULES = ("tracing", "idle", "plain_python", "panel", "taps", "live", "nojit")

if __name__ == "__main__":
    only = set(sys.argv[1:])
    rows = [row for name in MODULES for row in importlib.import_module(name).rows(only)]
    print_table(rows)
