"""promptfoo's prompts: texts, files, and chat messages in JSON or YAML."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from evalflow.addons.interop.importers.ledger import Untranslatable
from evalflow.addons.interop.importers.located import Broken, LocatedMap, located_json, located_yaml, placed
from evalflow.addons.interop.importers.nunjucks import jinja_of
from evalflow.addons.interop.importers.readers import objects_in, text_in, texts_in
from evalflow.addons.interop.importers.sources import SourceFolder, text_of_file
from evalflow.values.jsonvalues import as_list, as_map

_ENDINGS = (".txt", ".md", ".j2", ".jinja", ".json", ".jsonl", ".yaml", ".yml", ".csv", ".prompt", ".prompty")
_PROGRAMS = re.compile(r"\.(py|js|ts|mjs|cjs|mts|cts|sh|bat|exe|go|rb)(:[\w.]+)?\Z")
_SEPARATOR = re.compile(r"^---\r?$", re.MULTILINE)
_CHAT = re.compile(r"\s*-\s+role:")
PROGRAM = "let the program write its prompts to files, and name the files"


@dataclass(frozen=True, slots=True)
class SourcePrompt:
    """A prompt of the configuration: its text as written, its label, where it stands, and its keys for the provider."""

    text: str
    label: str
    where: str
    config: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A prompt for evalflow's targets, in Jinja, with the variables that it uses."""

    system: str | None
    user: str
    variables: frozenset[str]


@dataclass(frozen=True, slots=True)
class PromptReader:
    """Reads the prompts of one file. Each entry yields one or several prompts, or a reason why there is none."""

    folder: SourceFolder
    base: Path

    def read(self, declared: object, where: str) -> Iterator[SourcePrompt | tuple[str, str, Untranslatable]]:
        """All prompts under `prompts`. One without an equivalent is yielded as name, place and reason."""
        entries: list[object] = as_list(declared) if isinstance(declared, list) else [declared]
        if isinstance(declared, LocatedMap) and not {"raw", "id", "path", "label"} & set(declared):
            entries = [_labelled(declared, name, label) for name, label in declared.items()]
        for number, (entry, spot) in enumerate(placed(entries, where)):
            try:
                yield from self._entry(entry, spot)
            except Untranslatable as error:
                shown = entry if isinstance(entry, str) else f"{number + 1}"
                yield f"prompt {shown.splitlines()[0][:60] if shown.strip() else number + 1}", spot, error

    def _entry(self, entry: object, where: str) -> Iterator[SourcePrompt]:
        if isinstance(entry, str):
            yield from self._named(entry, None, where)
            return
        if not isinstance(entry, Mapping):
            raise Untranslatable("it is neither a text nor an object", "write it as text")
        declared = as_map(entry)
        if declared.get("function"):
            raise Untranslatable("it is a function", PROGRAM)
        text = declared.get("raw") or declared.get("path") or declared.get("id")
        if not isinstance(text, str):
            raise Untranslatable("it has neither `raw` nor `id`", "write it as text")
        config = as_map(declared.get("config"))
        for prompt in self._named(text, text_in(declared, "label") or None, where):
            yield replace(prompt, config=config)

    def _named(self, text: str, label: str | None, where: str) -> Iterator[SourcePrompt]:
        """A prompt as text, or all prompts of the file or files that it names."""
        is_file = text.startswith("file://") or ("\n" not in text and "{{" not in text and text.endswith(_ENDINGS))
        name = text.removeprefix("file://")
        if ("\n" not in text and _PROGRAMS.search(name)) or text.startswith("exec:"):
            raise Untranslatable(f"it is the program {name}", PROGRAM)
        if re.match(r"(portkey|langfuse|helicone)://", text):
            raise Untranslatable("it is stored in another service", "write its text into the file")
        if not is_file:
            yield SourcePrompt(text, label or text, where)
            return
        for path in self.folder.matching(name, self.base, where):
            for part in _parts(path):
                yield SourcePrompt(part, label or path.stem, where)


def _labelled(declared: LocatedMap, name: str, label: object) -> LocatedMap:
    """An entry of a map of prompts to their labels."""
    entry = LocatedMap(declared.file, declared.line)
    entry |= {"id": name, "label": label}
    return entry


def _parts(path: Path) -> list[str]:
    """The prompts in a file: text separated by lines of ---; one per line in JSON lines and CSV."""
    text = text_of_file(path)
    match path.suffix.lower():
        case ".txt":
            return [part.strip("\r\n") for part in _SEPARATOR.split(text) if part.strip()]
        case ".jsonl":
            return [line for line in text.split("\n") if line.strip()]  # other line ends may be in a text
        case ".csv":
            rows = list(csv.reader(io.StringIO(text)))
            columns = rows[0] if rows else []
            at = columns.index("prompt") if "prompt" in columns else 0
            return [row[at] for row in rows[1 if "prompt" in columns else 0 :] if row]
        case _:
            return [text]


def chat_prompt(source: SourcePrompt, prefix: str = "", suffix: str = "") -> ChatPrompt:
    """The prompt for a target; Untranslatable if it has turns of a conversation between system and user."""
    messages = _messages(source.text)
    if messages is None:
        return ChatPrompt(None, *jinja_of(f"{prefix}{source.text}{suffix}"))
    system = [text for role, text in messages if role in ("system", "developer")]
    others = [text for role, text in messages if role not in ("system", "developer")]
    if len(others) != 1 or messages[-1][0] != "user":
        hint = "give the cases the earlier turns as `messages`, and the target the system prompt"
        raise Untranslatable(f"it is a conversation of {len(messages)} messages", hint)
    parts = [jinja_of(text) for text in ("\n\n".join(system), others[0])]
    return ChatPrompt(parts[0][0] or None, parts[1][0], parts[0][1] | parts[1][1])


def _messages(text: str) -> list[tuple[str, str]] | None:
    """Chat messages as role and text; None if it is a plain prompt."""
    looks = text.lstrip()
    try:
        if looks.startswith("["):
            value: object = located_json(text, "prompt")
        elif _CHAT.match(text):
            value = located_yaml(text, "prompt")
        else:
            return None
    except Broken:
        if '"role"' in text:
            hint = "write the messages as YAML, with the templates as texts in them"
            raise Untranslatable("its chat messages are JSON only after the template is filled", hint) from None
        return None
    messages = objects_in(value)
    if messages is None or not all("role" in message for message in messages):
        return None
    return [(text_in(message, "role"), _content(message.get("content"))) for message in messages]


def _content(content: object) -> str:
    if isinstance(content, list):
        parts = texts_in([as_map(part).get("text") for part in as_list(content)])
        if parts is None:
            raise Untranslatable("it has images or other parts that are not text", "evalflow sends text")
        return "\n".join(parts)
    if not isinstance(content, str):
        raise Untranslatable("one of its messages has no text", "give each message a `content`")
    return content


def prompt_text(source: SourcePrompt) -> str:
    """The prompt as one text; chat messages as JSON, as promptfoo sends them to `echo`."""
    try:
        content = json.loads(source.text)
    except ValueError:
        return source.text
    return json.dumps(content) if isinstance(content, dict | list) else source.text
