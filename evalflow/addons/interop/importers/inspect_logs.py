"""Import of Inspect's logs: .eval, a zip of a header and samples, or .json.

Newer versions compress the zip's members by zstd, which needs the package zstandard.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from struct import unpack

from evalflow.addons.interop.importers.columns import Columns, joined
from evalflow.addons.interop.importers.conversation import about_answer, message_rows, read_turns
from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource, as_json
from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.readers import object_in, plain_text, texts_in
from evalflow.addons.interop.importers.recorded import Counterparts, recorded_cases
from evalflow.addons.interop.importers.sources import LARGEST_FILE, expect_text, leave_document_keys, read_objects
from evalflow.datasets.halves import Halves
from evalflow.datasets.json_files import document_values
from evalflow.datasets.nan_literals import without_nan
from evalflow.datasets.rows import ReadingNotes
from evalflow.datasets.sources import SourceRow, parse_json, record
from evalflow.errors import Problem, UserError
from evalflow.extras import install_command
from evalflow.paths import shown
from evalflow.values.jsonvalues import as_list, as_map, present

_ZSTD = 93
_VERSION = 2
_ATTACHED = "attachment://"
_APART = frozenset({"attachments", "events", "events_data"})
_LETTERS: Mapping[str, float] = {"C": 1.0, "P": 0.5, "I": 0.0}
_AGAIN = "run the evaluation again, and import its log"
_NO_PICTURE = "evalflow only sends images with their data or a web address"
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
    """Import a log; UserError if it is truncated, or of an unknown version. Broken samples are listed."""
    path = source.file(hint="name a log: logs/X.eval or logs/X.json")
    with recorded_cases(source, "Inspect", "inspect", _COUNTERPARTS) as cases:
        is_zip = path.suffix.lower() == ".eval"
        for item in _of_zip(path, cases.ledger) if is_zip else _of_json(path, cases.ledger):
            row = Columns(as_map(_resolved(item.data, as_map(item.data.get("attachments")))), item.where)
            row.leave("it is the transcript of the sample", "events", "events_data", "timelines", "store")
            cases.take(row, partial(_case, row, cases.ledger), list(_scores(row)))
        if not cases.answered:
            what = "all samples of the log are errors" if cases.file.count else "the log has no samples"
            raise cases.ledger.nothing_taken(Problem(what, shown(path), _AGAIN), "cases")
    cases.imported.notes.append("epochs become cases of one group, so repeats do not count as additional questions")
    return cases.imported


def _expect_version(version: object, path: Path) -> None:
    if version != _VERSION:
        what = f"it is not a log of Inspect, or has another version: {version} instead of {_VERSION}"
        raise UserError(Problem(what, shown(path)))


def _of_json(path: Path, ledger: Ledger) -> Iterator[SourceRow]:
    expect_text(path)
    values = document_values(path)
    _expect_version(values.get("version"), path)
    yield from read_objects(path, "samples", ledger)
    leave_document_keys(path, values, ("samples", "version"), ledger)


def _of_zip(path: Path, ledger: Ledger) -> Iterator[SourceRow]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if "header.json" not in names:
                raise UserError(Problem("the log has no header: the evaluation has not ended", shown(path)))
            header = _member(archive, "header.json", path)
            if isinstance(header, Problem):
                raise UserError(header)
            _expect_version(header.data.get("version"), path)
            halves = Halves()
            for name in names:
                if name.startswith("samples/") and name.endswith(".json"):
                    row = _member(archive, name, path, halves)
                    if isinstance(row, SourceRow):
                        yield row
                    else:
                        ledger.leave_broken(row)
            ledger.leave_reading(ReadingNotes(halves=halves.count), shown(path))
            leave_document_keys(path, header.data, ("version",), ledger)
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise UserError(Problem(f"the log is broken or truncated: {error}", shown(path))) from None


def _member(archive: zipfile.ZipFile, name: str, path: Path, halves: Halves | None = None) -> SourceRow | Problem:
    about = archive.getinfo(name)
    where = f"{shown(path)}:{name}"
    if about.file_size > LARGEST_FILE:
        return Problem(f"the sample has {about.file_size:,} bytes; the maximum is {LARGEST_FILE:,}", where)
    if about.compress_type == _ZSTD:
        content = _of_zstd(_compressed(path, about, where), about.file_size, where)
    else:
        with archive.open(about) as file:
            content = file.read(LARGEST_FILE + 1)
    value = parse_json(without_nan(content), where, halves=halves)
    return value if isinstance(value, Problem) else record(value, where)


def _compressed(path: Path, about: zipfile.ZipInfo, where: str) -> bytes:
    """The compressed bytes of a member, which follow its local header."""
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
        raise UserError(Problem(what, where, f"{install_command('inspect')}; or {_TO_JSON}")) from None
    try:
        with zstandard.ZstdDecompressor().stream_reader(content) as reader:  # pyright: ignore
            return bytes(reader.read(size + 1))  # pyright: ignore
    except zstandard.ZstdError as error:  # pyright: ignore
        raise UserError(Problem(f"the log is broken: {error}", where)) from None


def _case(row: Columns, ledger: Ledger) -> dict[str, object]:
    own = row.case_id("id")
    if "input" not in row or own is None:
        raise Untranslatable("it is not a sample of Inspect: it has no id or input")
    epoch = row.get("epoch")
    about = {"id": f"{own}/{1 if epoch is None else epoch}", "group": str(own)}
    case = {**about, **_asked(row, ledger), **_answer(row, ledger)}
    targets = row.take(_targets, "target")
    row.get("attachments")
    case |= present(
        reference=targets[0] if targets and len(targets) == 1 else targets or None,
        actual=_steps(row, ledger) or None,
        metadata=joined(row.take(object_in, "metadata") or {}, as_map(case.get("metadata"))) or None,
    )
    if "includes" in as_map(row.peek("scores")) and targets:
        rule = {"op": "contains_any", "values": targets, "normalize": None, "case_sensitive": False}
        case["checks"] = [{"identifier": "rule", "name": "includes", "params": rule}]
    return case


def _asked(row: Columns, ledger: Ledger) -> dict[str, object]:
    asked = row.get("input")
    if isinstance(asked, str):
        if not asked.strip():
            raise Untranslatable("its input is empty")
        return {"question": asked}
    turns = [_message(item, ledger, row.where) for item in as_list(asked)]
    messages = read_turns(turns, ledger, row.where, ordered=True)
    if not messages:
        raise Untranslatable("its input has no messages")
    return {"messages": message_rows(messages)}


def _targets(value: object) -> list[str] | None:
    """The text, or those of a list that are not empty; None for anything else."""
    texts = texts_in(as_list(value) or [value])
    return None if texts is None else [text for text in texts if text]


def _answer(row: Columns, ledger: Ledger) -> dict[str, object]:
    """The first choice's answer, or why it is missing; other choices stay in the variable `output`."""
    failure = row.child("error").get("message")
    if failure is not None:
        return {"failure": as_json(failure)}
    output = row.child("output")
    choices = output.children("choices")
    message = choices[0].get("message") if choices else None
    spoken = [{"role": "assistant", **_message(message, ledger, row.where)}] if message else []
    messages = read_turns(spoken, ledger, row.where)
    completion = output.peek("completion")
    if not messages:
        return {"answer": output.get("completion")} if isinstance(completion, str) else {}
    answer = messages[0]
    if completion == answer.content:
        output.get("completion")
    ended = choices[0].take(plain_text, "stop_reason")
    return {"answer": answer.content, **present(metadata=about_answer(messages) or None, finish_reason=ended)}


def _steps(row: Columns, ledger: Ledger) -> list[dict[str, object]]:
    """An agent's messages, with tool results. If it called no tool, empty, and the key stays unread."""
    declared = as_list(row.peek("messages"))
    inputs = len(as_list(row.peek("input"))) or 1
    turns = declared[inputs:] if len(declared) > inputs else declared
    if not any(as_list(as_map(turn).get("tool_calls")) for turn in turns):
        if len(declared) <= inputs + 1:  # only the input and the answer
            row.get("messages")
        return []
    row.get("messages")
    return message_rows(read_turns((_message(turn, ledger, row.where) for turn in turns), ledger, row.where))


def _message(declared: object, ledger: Ledger, where: str) -> dict[str, object]:
    """A message of Inspect in chat API format; images in files and sounds are listed."""
    message = dict(as_map(declared))
    calls = as_list(message.get("tool_calls"))
    if calls:
        named = [{**as_map(call), "name": as_map(call).get("function")} for call in calls]
        message["tool_calls"] = [{key: value for key, value in call.items() if key != "function"} for call in named]
    if message.get("role") == "tool" and isinstance(message.get("function"), str):
        message["name"] = message.pop("function")
    if isinstance(message.get("content"), list):
        parts = [_part(part, ledger, where) for part in as_list(message["content"])]
        message["content"] = [part for part in parts if part is not None]
    return message


def _part(part: object, ledger: Ledger, where: str) -> object:
    content = as_map(part)
    kind = content.get("type")
    if kind not in ("image", "audio", "video", "document"):
        return part
    picture = content.get("image")
    if kind == "image" and isinstance(picture, str) and picture.startswith(("data:", "http:", "https:")):
        detail = {"detail": content["detail"]} if content.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": picture, **detail}}
    ledger.leave("images and other parts", str(kind), where, _NO_PICTURE)
    return None


def _resolved(value: object, attachments: Mapping[str, object]) -> object:
    """The value with the texts that Inspect stores as attachments put back."""
    if isinstance(value, str):
        return attachments.get(value.removeprefix(_ATTACHED), value) if value.startswith(_ATTACHED) else value
    if isinstance(value, dict):
        fields = as_map(value)
        return {key: part if key in _APART else _resolved(part, attachments) for key, part in fields.items()}
    return [_resolved(item, attachments) for item in as_list(value)] if isinstance(value, list) else value


def _scores(row: Columns) -> Iterator[tuple[str, object]]:
    """Each value of each scorer. Letters are grades; N is "no answer". Explanations stay in the variable scores."""
    for scorer, content in as_map(row.peek("scores")).items():
        value = as_map(content).get("value")
        for name, part in (
            {f"{scorer} {key}": inner for key, inner in as_map(value).items()} or {scorer: value}
        ).items():
            yield name, None if part == "N" else _LETTERS.get(part, part) if isinstance(part, str) else part
