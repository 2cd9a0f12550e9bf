"""Text of others on a terminal: shown as it is, and never obeyed.

Data, answers and judges may say what a terminal, or rich, would take for an instruction: escape sequences that move
the cursor or set the clipboard, and markup such as `[/x]`. A `Text` has no markup; what it is made of here has no
control characters.
"""

from __future__ import annotations

import re

from rich.text import Text

# C0 but for tab and newline, delete, and C1, which some terminals obey like escapes. Half a surrogate pair, which JSON
# may spell, is no character and could not be written.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def plain(text: str) -> str:
    """The text without control characters; tabs and newlines stay."""
    return _CONTROLS.sub("", text)


def plain_line(text: str) -> str:
    """The same on one line: every run of white space is one space."""
    return " ".join(plain(text).split())


def literal(text: str, style: str = "") -> Text:
    """Text to print or to put into a table cell, whoever wrote it."""
    return Text(plain(text), style=style)


def folded(name: str, width: int, indent: str = "  ") -> str:
    """A long name in several lines, broken where its words end."""
    lines = [""]
    for word in re.findall(r"[^_.=· /[-]*[_.=· /[-]*", name):
        if len(lines[-1]) + len(word) > width and lines[-1].strip():
            lines.append(indent)
        lines[-1] += word
    return "\n".join(lines)
