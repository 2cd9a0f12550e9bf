"""Import of Inspect's logs: .eval, a zip of a header and samples, or .json.

Newer versions compress the members of the zip by zstd, for which the package zstandard is needed.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from struct import unpack
from typing import Any

from evalflow.datasets.sources import SourceRow, parse_json
from evalflow.errors import Problem, UserError
from evalflow.importers.files import ImportedConfig, ImportSource, output_text
from evalflow.importers.ledger import Ledger
from evalflow.importers.recorded import PARTS, Counterparts, recorded_cases
from evalflow.importers.sources import LARGEST_FILE, expect_object, expect_text, read_objects
from evalflow.jsonvalues import as_list, as_map
from evalflow.paths import shown

_ZSTD = 93
_VERSION = 2
_LETTERS: Mapping[str, float] = {"C": 1.0, "P": 0.5, "I": 0.0}
_TO_JSON = "write it as JSON: inspect log convert --to json --output-dir DIR LOG"
_HINTS: Mapping[str, str] = {
    "model_graded_qa": "metric=factual_correctness, with a judge",
    "model_graded_fact": "metric=factual_correctness, with a judge",
    "exact": "metric=exact_match",
    "match": "a check of the type `rule`: docs/rules.md",
    "pattern": "a check of the type `rule`: docs/rules.md",
    "answer": "a check of the type `rule`: docs/rules.md",
    "choice": "metric=exact_match",
    "f1": "metric=semantic_similarity",
}
_COUNTERPARTS = Counterparts({"includes": "checks"}, _HINTS)


def read_inspect(source: ImportSource) -> ImportedConfig:
    """Import a log; UserError if it is none, is truncated, or of an unknown version."""
    path = source.path
    source.expect_file("name a log: logs/X.eval or logs/X.json")
    imported = ImportedConfig(ledger=Ledger(PARTS))
    samples = _of_zip(path) if path.suffix.lower() == ".eval" else _of_json(path)
    with recorded_cases(source, imported, "Inspect", "inspect", path, _COUNTERPARTS) as cases:
        for sample in samples:
            cases.take(sample.where, partial(_case, sample), _scores(as_map(sample.data.get("scores"))))
        if not cases.answered:
            what = "all samples of the log are errors" if cases.file.count else "the log has no samples"
            raise UserError(Problem(what, shown(path), "run the evaluation again, and import its log"))
    imported.notes.append("epochs are cases of one group, so that repeats do not count as more questions")
    return imported


def _expect_version(version: Any, path: Path) -> None:
    if version != _VERSION:
        what = f"it is no log of Inspect, or of another version: {version} instead of {_VERSION}"
        raise UserError(Problem(what, shown(path)))


def _of_json(path: Path) -> Iterator[SourceRow]:
    expect_text(path)
    return read_objects(path, "samples", {"version": lambda found: _expect_version(found, path)})


def _of_zip(path: Path) -> Iterator[SourceRow]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if "header.json" not in names:
                raise UserError(Problem("the log has no header: the evaluation has not ended", shown(path)))
            _expect_version(_member(archive, "header.json", path).data.get("version"), path)
            for name in names:
                if name.startswith("samples/") and name.endswith(".json"):
                    yield _member(archive, name, path)
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise UserError(Problem(f"the log is broken or truncated: {error}", shown(path))) from None


def _member(archive: zipfile.ZipFile, name: str, path: Path) -> SourceRow:
    about = archive.getinfo(name)
    where = f"{shown(path)}:{name}"
    if about.file_size > LARGEST_FILE:
        raise UserError(Problem(f"the sample has {about.file_size:,} bytes, at most {LARGEST_FILE:,} are read", where))
    if about.compress_type == _ZSTD:
        content = _of_zstd(_compressed(path, about, where), about.file_size, where)
    else:
        with archive.open(about) as file:
            content = file.read(LARGEST_FILE + 1)
    value = parse_json(content, where)
    if isinstance(value, Problem):
        raise UserError(value)
    return expect_object(value, where)


def _compressed(path: Path, about: zipfile.ZipInfo, where: str) -> bytes:
    """The compressed bytes of a member, which stand behind a header of their own."""
    with path.open("rb") as file:
        file.seek(about.header_offset)
        header = file.read(30)
        if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
            raise UserError(Problem("the log is broken or truncated", where))
        name, extra = unpack("<HH", header[26:30])
        file.seek(about.header_offset + 30 + name + extra)
        return file.read(about.compress_size)


def _of_zstd(content: bytes, size: int, where: str) -> bytes:
    try:
        import zstandard  # pyright: ignore[reportMissingImports]
    except ImportError:
        what = "the log is compressed by zstd, which needs the package zstandard"
        raise UserError(Problem(what, where, f"pip install zstandard; or {_TO_JSON}")) from None
    try:
        with zstandard.ZstdDecompressor().stream_reader(content) as reader:  # pyright: ignore
            return bytes(reader.read(size + 1))  # pyright: ignore
    except zstandard.ZstdError as error:  # pyright: ignore
        raise UserError(Problem(f"the log is broken: {error}", where)) from None


def _case(row: SourceRow) -> dict[str, Any]:
    sample = row.data
    if "input" not in sample or "id" not in sample:
        raise UserError(Problem("it is no sample of Inspect: it has no id or input", row.where))
    attachments = as_map(sample.get("attachments"))
    epoch = sample.get("epoch", 1)
    asked = [_message(one, attachments) for one in as_list(sample["input"])]
    question = sample["input"] if isinstance(sample["input"], str) else ""
    found: dict[str, Any] = {"id": f"{sample['id']}/{epoch}", "group": str(sample["id"])}
    found |= (
        {"messages": asked} if asked and asked[-1]["role"] == "user" else {"question": _text(question, attachments)}
    )
    target = sample.get("target")
    targets = [str(one) for one in (as_list(target) or ([target] if isinstance(target, str) and target else []))]
    found |= {"reference": targets[0]} if targets else {}
    message = as_map(sample.get("error")).get("message")
    output = as_map(sample.get("output"))
    said = [as_map(as_map(one).get("message")) for one in as_list(output.get("choices"))]
    answer = _text(said[0].get("content"), attachments) if said else output.get("completion")
    found |= {"failure": str(message)} if message else {"answer": str(answer)} if answer is not None else {}
    calls = list(_calls(as_list(sample.get("messages"))))
    found |= {"actual": calls} if calls else {}
    about = dict(as_map(sample.get("metadata")))
    found |= {"metadata": about} if about else {}
    choices = as_list(sample.get("choices"))
    found["vars"] = {"targets": targets, **({"choices": choices} if choices else {})}
    if "includes" in as_map(sample.get("scores")) and targets:
        rule = {"op": "contains_any", "values": targets, "normalize": None, "case_sensitive": False}
        found["checks"] = [{"identifier": "rule", "name": "includes", "params": rule}]
    return found


def _message(declared: Any, attachments: Mapping[str, Any]) -> dict[str, str]:
    known = as_map(declared)
    return {"role": str(known.get("role")), "content": _text(known.get("content"), attachments)}


def _text(content: Any, attachments: Mapping[str, Any]) -> str:
    if isinstance(content, list):
        return "\n".join(_text(as_map(part).get("text", ""), attachments) for part in as_list(content))
    text = content if isinstance(content, str) else "" if content is None else output_text(content)
    return str(attachments.get(text.removeprefix("attachment://"), text)) if text.startswith("attachment://") else text


def _calls(messages: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for message in messages:
        for call in as_list(as_map(message).get("tool_calls")):
            known = as_map(call)
            yield {"name": str(known.get("function")), "arguments": dict(as_map(known.get("arguments")))}


def _scores(declared: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each value of each scorer; letters are grades, and N is no answer."""
    for scorer, one in declared.items():
        value = as_map(one).get("value")
        for name, part in (
            {f"{scorer} {key}": inner for key, inner in as_map(value).items()} or {scorer: value}
        ).items():
            yield name, None if part == "N" else _LETTERS.get(part, part) if isinstance(part, str) else part
