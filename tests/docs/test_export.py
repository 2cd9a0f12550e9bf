"""The page on exports: its commands run, and it names every attribute and destination."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evalflow.addons.interop.exporters.otel_events import LONGEST
from evalflow.addons.interop.exporters.otel_live import BATCH
from evalflow.addons.interop.exporting import DESTINATIONS
from tests.addons.interop.exporters.receiver import OtlpReceiver
from tests.docs.test_readme import ROOT, blocks, run

PAGE = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_commands_for_opentelemetry_run(tmp_path: Path) -> None:
    lines = blocks("bash", PAGE)[0].splitlines()
    with OtlpReceiver() as receiver:
        for line in lines:
            done = run(line.replace("http://127.0.0.1:4318", receiver.url), tmp_path)
            assert done.returncode == 0, done.stderr
    uids = [one.uid for one in receiver.accepted]
    assert uids
    assert len(uids) == len(set(uids))
    named = set(re.findall(r"`((?:gen_ai|error|log|evalflow)\.[a-z_.]+)`", PAGE))
    assert {name for one in receiver.accepted for name in one.attributes} <= named


def test_the_page_names_every_destination() -> None:
    assert all(f"| `{name}` |" in PAGE for name in DESTINATIONS)
    assert f"{LONGEST:,} characters" in PAGE
    assert f"up to {BATCH} scores a second" in PAGE
