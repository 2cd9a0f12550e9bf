"""Split the thoughts that a reasoning model writes at the beginning of a reply from the reply itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from evalflow.values.jsonvalues import as_list, as_map

_NAMES = r"(?:think|thinking|thoughts?|reasoning|reflection|seed:think)"
_BLOCKS = (
    (rf"<{_NAMES}(?:\s[^<>]*)?>", rf"</{_NAMES}\s*>"),
    (r"\[think\]", r"\[/think\]"),  # Magistral
    (r"◁think▷", r"◁/think▷"),  # Kimi
    (r"<\|start_thinking\|>", r"<\|end_thinking\|>"),  # Command A
    (r"<\|channel>thought", r"<channel\|>"),  # Gemma
    (r"(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)[^<>]*<\|message\|>", r"<\|end\|>"),  # gpt-oss
)
_COMPILED = [tuple(re.compile(text, re.IGNORECASE) for text in block) for block in _BLOCKS]
_HINTS = ("think", "thought", "reasoning", "reflection", "<|channel")  # each closing tag contains one of these
_BEFORE_REPLY = re.compile(
    r"\s*(?:(?:<\|start\|>assistant)?<\|channel\|>final[^<>]*<\|message\|>|<\|start_response\|>)", re.IGNORECASE
)
_AFTER_REPLY = re.compile(r"(?:<\|return\|>|<\|end\|>|<\|end_response\|>)\s*\Z", re.IGNORECASE)
_QUOTES = frozenset("`'\"«»“”‘’„「」")
_BLANK = " \t\r\n\ufeff\u200b"


_FIELDS = ("reasoning_content", "reasoning", "thinking", "thoughts", "thinking_blocks")
_PARTS = frozenset({"thinking", "reasoning", "reasoning_content", "reasoningContent", "redacted_thinking"})
_TEXTS = _PARTS | {"text", "reasoningText"}


def own_thoughts(message: Mapping[str, object]) -> str | None:
    """Return the thoughts in a message's own field, whose name depends on the server; None without any."""
    texts = (_text(message[name]).strip() for name in _FIELDS if name in message)
    return next(filter(None, texts), None)


def split_parts(parts: Sequence[object]) -> tuple[str | None, str]:
    """Return the thoughts (or None) and the text of a reply that is a list of parts, as from Mistral and Bedrock."""
    thoughts = "".join([_text(part) for part in parts if _is_thought(part)]).strip()
    return thoughts or None, "".join([_text(part) for part in parts if not _is_thought(part)])


def refusal_in(parts: Sequence[object]) -> str:
    """Return the text of the parts in which a model refuses, as OpenAI sends them; empty without any."""
    refusals = (fields.get("refusal") for fields in map(as_map, parts) if fields.get("type") == "refusal")
    return "".join(text for text in refusals if isinstance(text, str))


def _is_thought(part: object) -> bool:
    fields = as_map(part)
    return bool({str(fields.get("type")), *fields} & _PARTS)


def _text(value: object) -> str:
    """Return the text of a part or of thoughts, which some servers nest in lists and objects; empty otherwise."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(map(_text, as_list(value)))
    return next(filter(None, (_text(inner) for name, inner in as_map(value).items() if name in _TEXTS)), "")


def split_thoughts(text: str) -> tuple[str | None, str]:
    """Split off the thoughts at the beginning of a reply, without their tags; None and the whole text without any.

    An unclosed block is all thoughts, and the rest is empty. A closing tag alone also ends thoughts, since some chat
    templates write the opening tag into the prompt, unless it is quoted or part of a sentence.
    """
    lower = text.lower()
    if not any(hint in lower for hint in _HINTS):
        return None, text
    thoughts: list[str] = []
    rest = text
    while (block := _opened(rest)) is not None:
        thoughts.append(block[0])
        rest = block[1]
    if not thoughts:
        block = _closed_only(text)
        if block is None:
            return None, text
        thoughts.append(block[0])
        rest = block[1]
    if before := _BEFORE_REPLY.match(rest):
        rest = _AFTER_REPLY.sub("", rest[before.end() :])
    return "\n\n".join(part for part in thoughts if part), rest.lstrip(_BLANK)


def _opened(text: str) -> tuple[str, str] | None:
    """Return the block at the beginning of a text and what follows it; None without a block."""
    begun = text.lstrip(_BLANK)
    for opening, closing in _COMPILED:
        if first := opening.match(begun):
            inner = begun[first.end() :]
            end = _end(inner, opening, closing)
            return (inner.strip(), "") if end is None else (inner[: end.start()].strip(), inner[end.end() :])
    return None


def _end(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> re.Match[str] | None:
    """Return the tag that closes a block around nested blocks; the first one if they do not match; or None."""
    depth, first = 1, None
    tags = sorted([*opening.finditer(text), *closing.finditer(text)], key=lambda tag: tag.start())
    for tag in tags:
        closes = tag.re is closing
        first = first or (tag if closes else None)
        depth += -1 if closes else 1
        if depth == 0:
            return tag
    return first


def _closed_only(text: str) -> tuple[str, str] | None:
    """Split a text at a closing tag without an opening one; None if the tag does not end thoughts."""
    for opening, closing in _COMPILED:
        end = closing.search(text)
        if end is None or opening.search(text, 0, end.start()):
            continue
        before, after = text[: end.start()], text[end.end() :]
        if not _is_mentioned(before, after):
            return before.strip(_BLANK), after
    return None


def _is_mentioned(before: str, after: str) -> bool:
    """Return whether a tag is quoted, in code, or part of a sentence, as in an answer about tags."""
    quoted = bool(before) and before[-1] in _QUOTES and after[:1] != "" and after[0] in _QUOTES
    in_code = before.count("```") % 2 == 1
    line = before.rpartition("\n")[2]
    before_it = line.rstrip()
    in_sentence = bool(before_it) and line != before_it and after[:1] == " " and before_it[-1] not in ".!?…。！？:;"
    return quoted or in_code or in_sentence
