"""Runs and bots as zip archives, streamed. They hold names of API keys, never their values."""

from __future__ import annotations

import json
import os
import re
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.bots import get_bot
from evalflow.addons.studio.work.own_parts import judge_of
from evalflow.addons.studio.work.run_files import ABOUT
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import repeating, run_row
from evalflow.addons.studio.work.space import Workspace, run_folder
from evalflow.addons.studio.work.transfer import definitions_of
from evalflow.addons.studio.work.trials import takes_turn
from evalflow.app.core.json_schema import SCHEMAS, schema_text, with_schema_line
from evalflow.config.load import read_yaml
from evalflow.config.yaml_text import yaml_of
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError, command
from evalflow.values.jsonvalues import is_list, is_object

RECORDS: Mapping[str, str] = {
    "run.json": "What the run was made of: configuration, versions, digests of data and prompts",
    "prepared.json": "What was made once for the run, such as steps that a judge wrote",
    "answers.jsonl": "Every answer as it came",
    "exclusions.json": "Results that people took out",
    "labels.jsonl": "People's labels of its answers",
    "calibration.json": "The judge's agreement with people's labels",
    "calibration.html": "The same, as a page",
}
"""The files of a run that `report`, `compare` and `calibrate` read, besides those offered for download one by one."""
PARTS = ("conf", "prompts", "data")
_BLOCK = 256 * 1024
_KEY = re.compile(r"^[^\S\n]*+api_key_env: '?([A-Za-z_]\w*)|oc\.env:\s*([A-Za-z_]\w*)", re.MULTILINE)
Entry = tuple[str, Path | bytes]
"""A name in the archive, and a file or its content."""


@requires("read")
def run_archive(space: Workspace, run_id: str) -> Iterator[bytes]:
    """Yield the blocks of a zip archive: a run's results, and the configuration, prompts and cases that repeat it.

    The command line can use the unpacked folder as a run.
    """
    row = run_row(space, run_id)
    folder = run_folder(space, row).path
    written = {**ABOUT, **RECORDS}
    there = [folder / name for name in written if (folder / name).is_file()]
    files: list[Entry] = [(one.name, _portable(one, space) if one.name == "run.json" else one) for one in there]
    parts = _parts(folder / "snapshot")
    arguments = repeating(replace(row, folder="."))[2:] if parts else []
    about = [f"# Run {run_id}", row.title, "", *(f"- `{name}`: {written[name]}" for name, _ in files)]
    about += ["- `conf/`, `prompts/`, `data/`: all that the run used"] if parts else []
    about += _commands("In this folder", [["report", "."], ["compare", "OTHER_RUN", "."]])
    about += _commands("Repeat the run", [["--config-dir", "conf", *arguments]]) if arguments else []
    return zipped([("README.md", _readme(about, parts)), *files, *parts])


@requires("edit")
@takes_turn
def bot_archive(space: Workspace, bot: str, datasets: Sequence[str] = ()) -> Iterator[bytes]:
    """Yield the blocks of a zip archive: a bot with its metrics, prompts, judges, checks and some datasets.

    The command line can use the conf/ of the unpacked folder.
    """
    bot_definition = get_bot(space, bot)
    if bot_definition.origin == "conf":
        raise UserError(Problem(f"the bot {bot} is declared in conf/", "bot", "hand its file over, or copy it first"))
    own = definitions_of(space, bot, datasets)
    metrics = list(own.metrics)
    made = TemporaryDirectory(prefix="evalflow-")
    own.write(Path(made.name))
    parts = _parts(Path(made.name))
    request = RunRequest(bot, datasets, metrics)
    arguments = replace(request, judge=judge_of(bot_definition.config, request)).words()
    live = [] if bot_definition.config.get("kind") == "recorded" else ["generate=true"]
    about = [
        f"# {bot_definition.title}",
        bot_definition.description,
        "",
        "The bot with its metrics and test cases, for evalflow.",
    ]
    about += _commands("What is in it", [["list", "--config-dir", "conf"]])
    if datasets and metrics:
        about += _commands("Check what a run would take, then run", [["check", *arguments, *live], [*arguments, *live]])

    def blocks() -> Iterator[bytes]:
        with made:
            yield from zipped([("README.md", _readme(about, parts)), *parts])

    return blocks()


def _parts(folder: Path) -> list[Entry]:
    file_paths = [path for part in PARTS for path in sorted((folder / part).rglob("*")) if path.is_file()]
    named = [(path.relative_to(folder), path) for path in file_paths]
    groups = dict.fromkeys(name.parent.name for name, _ in named if with_schema_line(name, ""))
    schemas: list[Entry] = [(f"{SCHEMAS.as_posix()}/{group}.json", schema_text(group).encode()) for group in groups]
    files = [(one.as_posix(), _declared(one, path) if one.suffix == ".yaml" else path) for one, path in named]
    return [*files, *schemas]


def _declared(name: Path, path: Path) -> bytes:
    """A file of conf/ with the comment that names its schema; a dataset gets the path of its data in the archive."""
    text = path.read_text(encoding="utf-8")
    if name.parent.name == "dataset":
        package, _, values = text.partition("\n")
        text = f"{package}\n{yaml_of({**read_yaml(values), 'path': f'data/{name.stem}.jsonl'})}"
    return with_schema_line(name, text).encode()


def _portable(path: Path, space: Workspace) -> bytes:
    """run.json without folders of the server: paths become relative to the archive or the workspace."""
    run, manifest = str(path.parent), RunFolder(path.parent).read_manifest()
    # A file that is gone is named where it was before the workspace was moved.
    roots = dict.fromkeys([str(space.root), str(json.loads(path.read_bytes())["working_directory"])])
    of_roots = [pair for root in roots if root for pair in ((f"{root}/", ""), (root, "."))]
    bases = ((f"{run}/snapshot/", ""), (f"{run}/", ""), (run, "."), *of_roots)

    def without(value: object) -> object:
        if is_object(value):
            return {without(key): without(one) for key, one in value.items()}
        if is_list(value):
            return [without(one) for one in value]
        if isinstance(value, str):
            for base, instead in bases:
                value = value.replace(base, instead)
        return value

    return json.dumps(without(json.loads(manifest.text)), ensure_ascii=False, indent=2).encode()


def _commands(title: str, lines: Iterable[Sequence[str]]) -> list[str]:
    return ["", f"{title}:", "", *(f"    {command(*arguments)}" for arguments in lines)]


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
    """A write-only buffer for a zip archive; it cannot seek, and `take` empties it."""

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
    """Yield the blocks of a zip archive of files. A file that grows meanwhile is cut at its size when it was opened."""
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
                    left = info.file_size = os.fstat(file.fileno()).st_size  # zipfile chooses Zip64 by it
                    with archive.open(info, "w") as entry:
                        while left and (block := file.read(min(_BLOCK, left))):
                            left -= entry.write(block)
                            yield sink.take()
            yield sink.take()
    yield sink.take()


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")
