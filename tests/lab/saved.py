"""Saved outputs of a traced cell, made from the sample reports."""

import base64
import gzip
from pathlib import Path
from typing import Any

from jaxmagic import __version__
from jaxmagic.records import PROTOCOL

REPORT = "application/vnd.jaxmagic.report+json"
VIEW = "application/vnd.jupyter.widget-view+json"
RECORDS = Path(__file__).parents[1] / "records"


def bundle(name: str, protocol: int = PROTOCOL) -> dict[str, Any]:
    """What a cell leaves in its notebook: the report in every form, and a widget whose kernel is gone."""
    report = gzip.compress((RECORDS / f"{name}.json").read_bytes())
    return {
        "text/plain": "the text",
        "text/html": "<p>the static page</p>",
        VIEW: {"version_major": 2, "version_minor": 0, "model_id": "gone"},
        REPORT: {"protocol": protocol, "version": __version__, "report": base64.b64encode(report).decode()},
    }
