"""The page on kinds of one's own: its package is installed, and its commands are run."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalflow import doors
from tests.docs.test_readme import ROOT, blocks, named_files, run

PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on Python's path that holds the page's modules and entry points, as an installed package has them."""
    site = tmp_path / "site"
    info = site / "house_kinds-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house-kinds\nVersion: 1.0\n", encoding="utf-8")
    [project] = blocks("toml", PAGE)
    groups = tomllib.loads(project)["project"]["entry-points"]
    lines = [
        line for group, points in groups.items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    modules = {re.match(r"# (\w+)\.py\n", text)[1]: text for text in blocks("python", PAGE)}  # type: ignore[index]
    for name, text in modules.items():
        (site / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    doors.installed_points.cache_clear()
    yield site
    doors.installed_points.cache_clear()
    for name in modules:
        sys.modules.pop(name, None)


def test_the_package_on_the_page_has_all_its_modules() -> None:
    [project] = blocks("toml", PAGE)
    said = tomllib.loads(project)
    modules = re.findall(r"^# (\w+)\.py$", PAGE, re.MULTILINE)
    named = {
        place.partition(":")[0] for points in said["project"]["entry-points"].values() for place in points.values()
    }
    assert set(said["tool"]["setuptools"]["py-modules"]) == set(modules)
    assert set(modules) - named == {"house"}  # the client that a judge asks


@pytest.mark.slow
def test_the_page_runs(installed: Path, tmp_path: Path) -> None:
    for name, text in named_files(PAGE):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    [tickets] = blocks("csv", PAGE)
    (tmp_path / "tickets.csv").write_text(tickets, encoding="utf-8")
    said = []
    for command in "".join(blocks("bash", PAGE)).splitlines():
        done = run(command, tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        said.append(done.stdout)
    metric, target, simulated, judge, imported, tickets, observed, slow, counted = said
    assert re.search(r"short +\d\.\d{3} .* 60 +0 +0 +0", metric), metric
    assert re.search(r"short +1\.000 ", target), target
    assert "simulated users: of 8 conversations" in simulated
    assert "our own house-7b" in judge
    assert re.search(r"coherence +0\.\d{3} ", judge), judge
    assert re.search(r"cases +3 +2 +1 *\n", imported)
    assert "row, tickets.csv:3: nothing was asked" in imported
    assert re.search(r"tickets_stars +4\.000 ", tickets), tickets
    assert observed.count("short") >= 1
    tallies = [path.read_text(encoding="utf-8") for path in tmp_path.glob("outputs/runs/*/tally.txt")]
    assert tallies == ["60\n"]
    assert re.search(r"short +\d\.\d{3} ", slow), slow
    assert counted == "60 scores\n"
    assert "count [RUN]" in run("python -m evalflow --help", tmp_path).stdout
    listed = run("python -m evalflow list metric", tmp_path)
    assert "short" in listed.stdout
    wrong = run("python -m evalflow check dataset=rag metric=short metric.short.words=many", tmp_path)
    assert wrong.returncode == 2
    assert "words" in wrong.stderr
