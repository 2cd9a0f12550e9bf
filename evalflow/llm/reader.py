"""Find a judge's typed reply in the model's text. Values are never changed, and no choice is made between several.

If the whole text is not the JSON object, the one object that fits the reply model is searched in it. If none fits, or
two different ones, the reply is invalid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from evalflow.llm.thoughts import split_thoughts
from evalflow.values.jsonvalues import as_list, as_map, distinct, mended

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from evalflow.llm.chat import Completion

_BLANK = " \t\r\n\ufeff\u200b"


_STRICT = json.JSONDecoder(object_pairs_hook=distinct)
_LOOSE = json.JSONDecoder(object_pairs_hook=distinct, strict=False)
_FENCE = re.compile(r"(?:```|~~~)[\w+-]*")
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+")|,(?=\s*[}\]])', re.DOTALL)
_OBJECT = re.compile(r"\{\s*[\"']|\[")
_SIGN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]]', re.DOTALL)
_HOLDERS = frozenset({"arguments", "parameters", "args", "input", "tool_input", "function", "properties"})
_FRAMES = frozenset({"name", "type", "id", "title", "description", "required", "additionalproperties", "$schema"})
_DEEPEST = 4  # maximum depth of nested wrappers
_MOST = 200  # maximum number of braces in a text tried as the beginning of an object


class InvalidReply(ValueError):
    """A reply does not match its schema; the model is shown the message."""

    def __init__(self, message: str, raw: str) -> None:
        self.raw = raw
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class ReadReply:
    """A valid reply.

    Attributes:
        parsed: Its content.
        raw: The model's text.
        json: The part of `raw` that is the object, as written.
        mended: What was removed or repaired to read it; empty if the reply is just the object.
    """

    parsed: BaseModel
    raw: str
    json: str
    mended: tuple[str, ...] = ()


def read_reply(
    completion: Completion, model: type[BaseModel], items: Sequence[object] | None, *, tools: bool, fenced: bool
) -> ReadReply:
    """Return the reply in a completion; InvalidReply unless exactly one object in it is valid.

    It must have one result per item of `items`. With `tools` it is expected in a tool call, with `fenced` in a Markdown
    fence; anywhere else it is accepted with a note.
    """
    text, cut = completion.text or "", completion.finish_reason == "length"
    reader = _ReplyReader(model, items, fenced=fenced, cut=cut)
    calls = [call.arguments for call in completion.tool_calls]
    if not _is_blank(text) and all(_is_blank(call) or call.strip() == "{}" for call in calls):
        calls = []
    here, there = (calls, [text]) if tools else ([text], calls)
    if all(map(_is_blank, (*here, *there))):
        # Some servers mistake a reply for thoughts if the model wrote no thoughts before it.
        if completion.reasoning and not cut and _is_alone(completion.reasoning):
            return reader.read([completion.reasoning], "reasoning field in place of text")
        raise InvalidReply("the reply is empty", completion.reasoning or "")
    try:
        if not all(map(_is_blank, here)):
            return reader.read(here)
        return reader.read(there, "text in place of a tool call" if tools else "tool call in place of text")
    except InvalidReply as error:
        called = len(completion.tool_calls)
        if tools and called != 1:
            raise InvalidReply(f"call the tool exactly once; it was called {called} times", error.raw) from None
        raise


def _is_blank(text: str) -> bool:
    return not text.strip(_BLANK)


def _whole(text: str) -> str:
    """Return a text without a fence and blanks around it."""
    whole = text.strip(_BLANK)
    opening = _FENCE.match(whole)
    if opening and whole.endswith(("```", "~~~")) and "```" not in (inside := whole[opening.end() : -3]):
        return inside.strip(_BLANK)
    return whole


@dataclass(frozen=True, slots=True)
class _Found:
    """A JSON value in a text, from `start` to `end`."""

    value: object
    start: int
    end: int
    notes: tuple[str, ...] = ()


class _ReplyReader:
    """Reads a reply model. `cut`: the text was cut off, so an object in the middle of it may be a draft."""

    def __init__(self, model: type[BaseModel], items: Sequence[object] | None, *, fenced: bool, cut: bool) -> None:
        self._model = model
        self._wanted = None if items is None else len(items)
        self._context = None if items is None else {"items": len(items)}
        self._fenced = fenced
        self._cut = cut
        self._complaint = ""

    def read(self, texts: Sequence[str], note: str = "") -> ReadReply:
        """Return the reply in texts; `note` says if these were in an unexpected place."""
        raw = "\n".join(texts)
        notes = (note,) if note else ()
        if len(texts) == 1:
            try:
                whole = mended(raw.encode("utf-8", "replace"))
                parsed, others = self._validated(whole)
                _STRICT.decode(whole.decode())
                return ReadReply(parsed, raw, raw, (*notes, *others))
            except (ValueError, RecursionError) as error:
                self._complaint = _complaint(error)
        valid = {
            fitted.parsed.model_dump_json(): fitted
            for text in texts
            for fitted in self._fitting(mended(text.encode("utf-8", "replace")).decode(), raw)
        }
        if len(valid) > 1:
            raise InvalidReply(f"the reply has {len(valid)} different objects that are valid; give exactly one", raw)
        for fitted in valid.values():
            return ReadReply(fitted.parsed, raw, fitted.json, tuple(dict.fromkeys((*notes, *fitted.mended))))
        raise InvalidReply(self._complaint, raw)

    def _fitting(self, text: str, raw: str) -> Iterator[ReadReply]:
        """Return every valid object in a text."""
        body, notes, ends = text, ("byte order mark",) * text.lstrip(" \t\r\n").startswith("\ufeff"), False
        thoughts, rest = (None, text) if _is_alone(text) else split_thoughts(text)
        if thoughts is not None:
            # If the whole text is one block, closed or not, the reply can only be at its end.
            ends = _is_blank(rest)
            body, notes = (thoughts if ends else rest), (*notes, "thoughts before it")
        every = list(_values(body))
        if ends and (self._cut or not every or _surrounding_text(body[every[-1].end :])):
            return
        for json_value in every:
            before, after = body[: json_value.start], body[json_value.end :]
            if self._cut and _surrounding_text(before) and _surrounding_text(after):
                continue
            for value, wrappers in _unwrapped(json_value.value):
                fitted = self._fitted(value, is_outer=not wrappers)
                if fitted is not None:
                    written = body[json_value.start : json_value.end]
                    written = _part(written, value) if wrappers else written
                    mends = (*notes, *self._around(before + after), *json_value.notes, *wrappers, *fitted[1])
                    yield ReadReply(fitted[0], raw, written, mends)
                    break

    def _around(self, outside: str) -> tuple[str, ...]:
        fence = ("Markdown fence",) if _FENCE.search(outside) and not self._fenced else ()
        return (*fence, "text around it") if _surrounding_text(outside) else fence

    def _fitted(self, value: object, *, is_outer: bool) -> tuple[BaseModel, tuple[str, ...]] | None:
        """Return the reply in a value, with the repairs; None if it is not valid."""
        for shaped, note in self._shapes(value):
            try:
                try:
                    parsed, others = self._validated(_encoded(shaped))
                except ValidationError as error:
                    kept, names = _without_extra(shaped, error)
                    parsed, others = self._validated(_encoded(kept))
                    note = (*note, f"key that was not asked for: {', '.join(names)}")
                return parsed, (*note, *others)
            except ValidationError as error:
                if is_outer:
                    self._complaint = _complaint(error)
        return None

    def _shapes(self, value: object) -> Iterator[tuple[object, tuple[str, ...]]]:
        """Return a value, and the object with one list that it may abbreviate: just the list, or the only result."""
        if isinstance(value, dict):
            yield value, ()
        fields = list(self._model.model_fields)
        if len(fields) == 1 and isinstance(value, list):
            yield {fields[0]: value}, (f"list without its name ({fields[0]})",)
        elif fields == ["results"] and self._wanted == 1 and isinstance(value, dict) and "results" not in value:
            yield {"results": [value]}, ("the only result without its list",)

    def _validated(self, text: bytes) -> tuple[BaseModel, tuple[str, ...]]:
        """Return the reply, and the values converted from another JSON type: quoted numbers or booleans, 4.0 for 4."""
        notes: tuple[str, ...] = ()
        try:
            parsed = self._model.model_validate_json(text, strict=True, context=self._context)
        except ValidationError as error:
            parsed = self._model.model_validate_json(text, context=self._context)
            places = [fault["loc"] for fault in error.errors(include_url=False)]
            names = dict.fromkeys(next(str(part) for part in reversed(place) if type(part) is str) for place in places)
            notes = (f"value of another JSON type: {', '.join(names)}",)
        return parsed, notes


def _surrounding_text(outside: str) -> str:
    """Return the text around an object, without fences."""
    return _FENCE.sub("", outside).strip(_BLANK)


def _is_alone(text: str) -> bool:
    """Return whether a text is just one object, so that a tag in it is part of a value."""
    whole = _whole(text)
    decoded = _decoded(whole, 0) if whole.startswith(("{", "[", '"')) else None
    return decoded is not None and not whole[decoded.end :].strip(_BLANK)


def _values(text: str) -> Iterator[_Found]:
    """Return the JSON value that is the whole text, and every top-level JSON object in it."""
    whole = _whole(text)
    start = text.index(whole)
    end = start + len(whole)
    if whole.startswith(("[", '"', '{\\"')):
        # A JSON string may have lost its outer quotes but not its escapes.
        bare = whole.startswith("{")
        decoded = _decoded(f'"{whole}"', 0) if bare else _decoded(text, start)
        if decoded is not None and (bare or decoded.end == end):
            yield _Found(decoded.value, start, end, decoded.notes)
            return
    start = text.find("{")
    for _ in range(_MOST):
        if start < 0:
            return
        decoded = _decoded(text, start)
        if decoded is not None:
            yield decoded
        # Content of a broken object is not a reply.
        start = text.find("{", decoded.end if decoded else _broken_end(text, start))


def _broken_end(text: str, start: int) -> int:
    """Return where to continue after a brace that begins no valid JSON: after the object it seems to begin."""
    return _closed(text, start) if _OBJECT.match(text, start) else start + 1


def _closed(text: str, start: int) -> int:
    """Return the end of the object or list that begins here; the end of the text if it is not closed."""
    depth = 0
    for sign in _SIGN.finditer(text, start):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(sign[0], 0)
        if depth == 0:
            return sign.end()
    return len(text)


def _decoded(text: str, start: int) -> _Found | None:
    """Decode the JSON value that begins here; raw control characters and trailing commas are accepted if necessary."""
    loose = _loosely(text, start)
    if loose is not None or not _OBJECT.match(text, start):
        return loose
    end = _closed(text, start)
    repaired = _TRAILING_COMMA.sub(lambda comma: comma[1] or " ", text[start:end])
    loose = _loosely(repaired, 0) if repaired != text[start:end] else None
    return loose and _Found(loose.value, start, start + loose.end, (*loose.notes, "trailing comma"))


def _loosely(text: str, start: int) -> _Found | None:
    for decoder, notes in ((_STRICT, ()), (_LOOSE, ("raw control characters",))):
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        return _Found(value, start, end, notes)
    return None


def _unwrapped(value: object) -> Iterator[tuple[object, tuple[str, ...]]]:
    """Return a value and what it wraps, repeatedly: the reply under a name, or a call as text."""
    notes: tuple[str, ...] = ()
    for _ in range(_DEEPEST):
        yield value, notes
        if isinstance(value, str):
            decoded = _decoded(_whole(value), 0)
            if decoded is None:
                return
            value, notes = decoded.value, (*notes, *decoded.notes, "JSON within a JSON text")
        elif isinstance(value, list) and len(as_list(value)) == 1:
            value, notes = as_list(value)[0], (*notes, "list around it")
        else:
            inner = _only_value(as_map(value))
            if inner is None:
                return
            name, value = inner
            notes = (*notes, f"object within {name!r}")


def _only_value(value: Mapping[str, object]) -> tuple[str, object] | None:
    """Return the only value in an object, or the arguments of a call; None if it is not just a wrapper."""
    if len(value) == 1:
        return next(iter(value.items()))
    held = [name for name in value if name.lower() in _HOLDERS]
    others = [name for name in value if name.lower() not in _HOLDERS | _FRAMES]
    return (held[0], value[held[0]]) if len(held) == 1 and not others else None


def _part(written: str, value: object) -> str:
    """Return the part of a JSON text that is a value; the whole text if the value is encoded in it."""
    start = written.find("{")
    while start >= 0:
        decoded = _decoded(written, start)
        if decoded is not None and decoded.value == value:
            return written[start : decoded.end]
        start = written.find("{", start + 1)
    return written


def _without_extra(value: object, error: ValidationError) -> tuple[object, list[str]]:
    """Return a value without keys unknown to its model, and their names; the error if it has other faults."""
    faults = error.errors(include_url=False, include_context=False)
    if any(fault["type"] != "extra_forbidden" for fault in faults):
        raise error
    kept = json.loads(json.dumps(value))
    for fault in faults:
        *path, name = fault["loc"]
        holder = kept
        for step in path:
            holder = holder[step]
        del holder[name]
    return kept, sorted({str(fault["loc"][-1]) for fault in faults})


def _encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def _complaint(error: Exception) -> str:
    """List each error with its location, without pydantic's links and the input, which only cost tokens."""
    if not isinstance(error, ValidationError):
        return str(error)
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return "\n".join(
        f"{'.'.join(map(str, fault['loc'])) or 'reply'}: {fault['msg'].removeprefix('Value error, ')}"
        for fault in faults
    )


def item_type(field: FieldInfo) -> Any:
    """Return the item type of a list field, or None for any other field."""
    if get_origin(field.annotation) is not list:
        return None
    held = get_args(field.annotation)[0]
    return getattr(held, "__origin__", held) if hasattr(held, "__metadata__") else held
