"""What is remembered of files is never what they said before."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, definitions
from evalflow.addons.studio.work.space import SETTLED_S, Remembered, Workspace


def later() -> float:
    """When all that was just written has settled."""
    return time.time() + 10 * SETTLED_S


def reader(file: Path, made: list[str]) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        made.append(file.read_text(encoding="utf-8"))
        return {"said": [made[-1]]}

    return make


def test_a_value_is_made_once_and_everybody_has_one_of_their_own(tmp_path: Path) -> None:
    file, made = tmp_path / "a.yaml", list[str]()
    file.write_text("one", encoding="utf-8")
    remembered = Remembered(later)
    for _ in range(3):
        found = remembered.get("a", [tmp_path], reader(file, made))
        assert found == {"said": ["one"]}
        found["said"].append("spoilt")
    assert made == ["one"]


@pytest.mark.parametrize("change", ["content", "name", "elsewhere", "link"])
def test_any_change_of_a_file_makes_it_anew(tmp_path: Path, change: str) -> None:
    folder, file, made = tmp_path / "conf", tmp_path / "conf" / "group" / "a.yaml", list[str]()
    file.parent.mkdir(parents=True)
    target = tmp_path / "real.yaml"
    target.write_text("one", encoding="utf-8")
    file.symlink_to(target) if change == "link" else file.write_text("one", encoding="utf-8")
    remembered = Remembered(later)
    remembered.get("a", [folder], reader(file, made))
    times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    if change == "name":
        (folder / "b.yaml").write_text("", encoding="utf-8")
    elif change == "elsewhere":  # as an editor does: another file in its place, of the same size and time
        other = tmp_path / "a.yaml"
        other.write_text("two", encoding="utf-8")
        os.utime(other, ns=times)
        other.replace(file)
    else:
        file.write_text("two", encoding="utf-8")
        os.utime(file, ns=times)
    remembered.get("a", [folder], reader(file, made))
    assert len(made) == 2


def test_what_has_just_been_written_is_not_remembered(tmp_path: Path) -> None:
    file, made = tmp_path / "a.yaml", list[str]()
    file.write_text("one", encoding="utf-8")
    remembered = Remembered(lambda: file.stat().st_ctime + SETTLED_S / 2)
    for _ in range(2):
        remembered.get("a", [tmp_path], reader(file, made))
    assert made == ["one", "one"]


def test_what_fails_is_tried_again(tmp_path: Path) -> None:
    def failing() -> dict[str, Any]:
        raise ValueError("not now")

    remembered = Remembered(later)
    with pytest.raises(ValueError, match="not now"):
        remembered.get("a", [tmp_path], failing)
    assert remembered.get("a", [tmp_path], lambda: {"a": 1}) == {"a": 1}


def test_a_bot_of_conf_is_composed_once(space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    composed: list[str] = []
    content = definitions.declared_content

    def counted(group: str, name: str, config_dir: Path | None = None) -> dict[str, Any]:
        composed.append(name)
        return content(group, name, config_dir)

    monkeypatch.setattr(definitions, "declared_content", counted)
    monkeypatch.setattr(space.remembered, "_now", later)
    first = bots.get_bot(space, "ollama")
    assert bots.get_bot(space, "ollama") == first
    assert composed == ["ollama"]
    own = tmp_path / "conf" / "target"
    own.mkdir(parents=True)
    (own / "ollama.yaml").write_text("defaults: [_openai, _self_]\nmodel: m\ntimeout_s: 7\n", encoding="utf-8")
    assert bots.get_bot(space, "ollama").config["timeout_s"] == 7
