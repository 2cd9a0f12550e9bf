"""Runs and bots as zip archives, made while they are sent. They hold names of keys, never their values."""

from __future__ import annotations

import os
import re
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from evalflow.app.studio.access import requires
from evalflow.app.studio.bots import get_bot
from evalflow.app.studio.run_files import ABOUT
from evalflow.app.studio.runs import repeating, run_row
from evalflow.app.studio.snapshot import RunRequest, judge_of, write_own
from evalflow.app.studio.space import Workspace, run_folder
from evalflow.app.studio.transfer import definitions_of
from evalflow.config.yaml_text import read_yaml, yaml_of
from evalflow.errors import Problem, UserError, command

RECORDS: Mapping[str, str] = {
    "run.json": "What the run was made of: configuration, versions, digests of data and prompts",
    "prepared.json": "What was made once for the run, such as steps that a judge wrote",
    "answers.jsonl": "Every answer as it came",
    "exclusions.json": "Results that people took out",
    "calibration.json": "The judge's agreement with people's labels",
    "calibration.html": "The same, as a page",
}
"""What `report`, `compare` and `calibrate` read of a run, besides the files that are offered one by one."""
PARTS = ("conf", "prompts", "data")
_BLOCK = 256 * 1024
_KEY = re.compile(r"^\s*api_key_env: '?([A-Za-z_]\w*)|oc\.env:\s*([A-Za-z_]\w*)", re.MULTILINE)
Entry = tuple[str, Path | bytes]
"""A name in the archive, and a file or its content."""


@requires("read")
def run_archive(space: Workspace, run_id: str) -> Iterator[bytes]:
    """A run's results, and the configuration, prompts and cases that repeat it, as a zip archive in blocks.

    Unpacked anywhere, its folder is a run for the command line.
    """
    row = run_row(space, run_id)
    folder = run_folder(space, row).path
    written = {**ABOUT, **RECORDS}
    files: list[Entry] = [(name, folder / name) for name in written if (folder / name).is_file()]
    parts = _parts(folder / "snapshot")
    words = repeating({**row, "folder": "."})[2:] if parts else []
    about = [f"# Run {run_id}", row["title"], "", *(f"- `{name}`: {written[name]}" for name, _ in files)]
    about += ["- `conf/`, `prompts/`, `data/`: all that the run used"] if parts else []
    about += _commands("In this folder", [["report", "."], ["compare", "OTHER_RUN", "."]])
    about += _commands("Repeat the run", [["--config-dir", "conf", *words]]) if words else []
    return zipped([("README.md", _readme(about, parts)), *files, *parts])


@requires("edit")
def bot_archive(space: Workspace, bot: str, datasets: Sequence[str] = ()) -> Iterator[bytes]:
    """A bot with its metrics, prompts, judges, checks and some datasets, as a zip archive in blocks.

    Unpacked anywhere, its folder has a conf/ that the command line uses.
    """
    found = get_bot(space, bot)
    if found.origin == "conf":
        raise UserError(Problem(f"the bot {bot} is declared in conf/", "bot", "hand its file over, or copy it first"))
    own = definitions_of(space, bot, datasets)
    metrics = list(own.metrics)
    made = TemporaryDirectory(prefix="evalflow-")
    write_own(Path(made.name), own)
    parts = _parts(Path(made.name))
    request = RunRequest(bot, datasets, metrics)
    words = replace(request, judge=judge_of(found.config, request)).words()
    live = [] if found.config.get("kind") == "recorded" else ["generate=true"]
    about = [f"# {found.title}", found.description, "", "The bot with its metrics and test cases, for evalflow."]
    about += _commands("What is in it", [["list", "--config-dir", "conf"]])
    if datasets and metrics:
        about += _commands("Check what a run would take, then run", [["check", *words, *live], [*words, *live]])

    def blocks() -> Iterator[bytes]:
        with made:
            yield from zipped([("README.md", _readme(about, parts)), *parts])

    return blocks()


def _parts(folder: Path) -> list[Entry]:
    """The files of conf/, prompts/ and data/ below a folder."""
    found = [path for part in PARTS for path in sorted((folder / part).rglob("*")) if path.is_file()]
    named = [(path.relative_to(folder).as_posix(), path) for path in found]
    return [(name, _relocated(name, path) if name.startswith("conf/dataset/") else path) for name, path in named]


def _relocated(name: str, path: Path) -> bytes:
    """A dataset's file of conf/ with the path of its data below the folder of the archive."""
    package, _, text = path.read_text(encoding="utf-8").partition("\n")
    values = {**read_yaml(text), "path": f"data/{Path(name).stem}.jsonl"}
    return f"{package}\n{yaml_of(values)}".encode()


def _commands(title: str, lines: Iterable[Sequence[str]]) -> list[str]:
    return ["", f"{title}:", "", *(f"    {command(*words)}" for words in lines)]


def _readme(lines: Sequence[str], parts: Iterable[Entry]) -> bytes:
    texts = (
        part if isinstance(part, bytes) else part.read_bytes()
        for name, part in parts
        if name.startswith("conf/") and name.endswith(".yaml")
    )
    keys = sorted({one or other for text in texts for one, other in _KEY.findall(text.decode())} - {"null"})
    needed = ["", f"Set before: {', '.join(keys)}. The values of keys are not in this archive."] if keys else []
    return "\n".join([*lines, *needed, ""]).encode()


class _Sink:
    """What a zip archive is written to: it cannot be sought, and is emptied as it is sent."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []

    def write(self, block: bytes) -> int:
        self._blocks.append(bytes(block))
        return len(block)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def take(self) -> bytes:
        blocks, self._blocks = self._blocks, []
        return b"".join(blocks)


def zipped(entries: Iterable[Entry]) -> Iterator[bytes]:
    """A zip archive of files in blocks. Of a file that grows meanwhile, it has what was there when it was begun."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
        for name, content in entries:
            info = zipfile.ZipInfo(name, time.localtime()[:6])
            info.compress_type = zipfile.ZIP_STORED if name.endswith(".parquet") else zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            if isinstance(content, bytes):
                archive.writestr(info, content)
            else:
                with _opened(content) as file:
                    left = info.file_size = os.fstat(file.fileno()).st_size  # decides whether it needs Zip64
                    with archive.open(info, "w") as entry:
                        while left and (block := file.read(min(_BLOCK, left))):
                            left -= entry.write(block)
                            yield sink.take()
            yield sink.take()
    yield sink.take()


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")
