"""The page on imports: its example runs, and what it prints is what the page shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from evalflow.addons.interop.importing import IMPORTERS
from tests.docs.test_readme import ROOT, blocks, run

PAGE = (ROOT / "docs" / "import.md").read_text(encoding="utf-8")
CHAIN = {"openinference.span.kind": "CHAIN", "input.value": "When?", "output.value": "At 9."}
ATTRIBUTES = [{"key": key, "value": {"stringValue": value}} for key, value in CHAIN.items()]
SPAN = {"traceId": "a1", "spanId": "b2", "name": "chain", "attributes": ATTRIBUTES}
TRACE = {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}


@pytest.mark.slow
def test_the_example_runs(tmp_path: Path) -> None:
    [config] = blocks("yaml", PAGE)
    (tmp_path / "promptfooconfig.yaml").write_text(config, encoding="utf-8")
    (tmp_path / "check.py").write_text("", encoding="utf-8")
    imported, checked, traced, *several = "".join(blocks("bash", PAGE)).splitlines()
    done = run(imported, tmp_path)
    assert done.returncode == 0, done.stderr
    shown = re.search(r"^    not translated\n(.*?)\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert shown
    said = " ".join(done.stdout.split())
    assert " ".join(shown[1].split()) in said
    for row in re.findall(r"^     (\w+)\s+(\d+)\s+(\d+)\s+(\d+)$", PAGE, re.MULTILINE):
        assert " ".join(row) in said
    assert "DESK_OUR_SERVER_API_KEY" in said
    assert run(checked, tmp_path).returncode == 0
    written = "".join(path.read_text(encoding="utf-8") for path in tmp_path.glob("[cdp]*/**/*.*"))
    assert "sk-do-not-copy-me" not in written
    rows = [f"Question {number}?,It is {number},{number % 2}\n" for number in range(8)]
    for name in ("first", "second"):
        (tmp_path / f"{name}.csv").write_text("user_input,response,faithfulness\n" + "".join(rows), encoding="utf-8")
    for command in several:
        done = run(command, tmp_path)
        assert done.returncode == 0, done.stderr
    assert "8 cases" in done.stdout
    (tmp_path / "traces.jsonl").write_text(json.dumps(TRACE), encoding="utf-8")
    assert run(traced, tmp_path).returncode == 0
    assert json.loads((tmp_path / "data" / "live.jsonl").read_text(encoding="utf-8"))["answer"] == "At 9."


def test_the_page_names_every_tool() -> None:
    assert all(f"| `{name}` |" in PAGE for name in IMPORTERS)
