"""The TypeScript side of the protocol is written from the records, and is not allowed to fall behind them."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from jaxmagic import records

ROOT = Path(__file__).parent.parent
PROTOCOL_TS = ROOT / "js" / "src" / "protocol.ts"

pytestmark = pytest.mark.skipif(not PROTOCOL_TS.exists(), reason="an installed package carries no front-end source")


@pytest.fixture(scope="module")
def typescript() -> str:
    return PROTOCOL_TS.read_text(encoding="utf-8")


def test_the_generated_file_is_up_to_date():
    check = [sys.executable, str(ROOT / "js" / "protocol.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_protocol_number_is_the_same_on_both_sides(typescript):
    assert f"export const PROTOCOL = {records.PROTOCOL};" in typescript


def test_every_record_has_an_interface(typescript):
    for name, found in vars(records).items():
        if isinstance(found, type) and issubclass(found, records.Record) and found is not records.Record:
            assert f"export interface {name} {{" in typescript


def test_every_field_is_present_in_json_so_that_no_property_is_optional(typescript):
    """`omit_defaults` would make each property optional without the compiler noticing."""
    span = records.Span(file="f", line=1, column=0, end_line=1, end_column=1)
    hint = records.Hint(span=span, function="f", call=0, name="x", role="argument", leaves=())
    assert set(msgspec.json.decode(msgspec.json.encode(hint))) == set(records.Hint.__struct_fields__)
    assert "?:" not in typescript


def test_docstrings_travel_to_the_browser(typescript):
    assert "/** Further leaves beyond the cap. */" in typescript
    assert "/** A piece of source text, in the units of PEP 657. */" in typescript
