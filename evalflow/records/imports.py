"""What an import of another tool's file leaves out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OmittedRow:
    """A row of another tool's file that is not a case; `import` counts and prints it.

    Attributes:
        reason: Why it is left out.
        where: Its place, such as `old.tsv:7`; empty for the file.
        hint: What to do instead.

    Example:
        >>> OmittedRow("it has no question", "old.tsv:7").reason
        'it has no question'
    """

    reason: str
    where: str = ""
    hint: str = ""
