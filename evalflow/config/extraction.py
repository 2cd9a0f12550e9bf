"""Which part of an answer is scored."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from evalflow.config.exchanges import JsonPath
from evalflow.config.strict import Strict, Word
from evalflow.values.jsonvalues import Path, json_path
from evalflow.values.patterns import Pattern, compiled, declared


class Extraction(Strict):
    """The part of an answer that is scored, stripped of blanks. Set exactly one of pattern, path, after and line.

    Attributes:
        pattern: A regular expression in the syntax of Python's `re`, not a template. Best in single quotes in YAML.
        group: The number or name of the pattern's group to take; null: the first group, or the whole match if there are
            no groups.
        path: A JSONPath into an answer that is JSON, with or without a Markdown code block around it.
        after: A marker such as "ANSWER:"; everything after it is taken.
        line: The first or the last line that is not blank.
        match: Which match to take if pattern, path or after match several times.
        clean: Whether to remove Markdown and LaTeX around the part (`**B**`, `$B$`), quotes, brackets and a full stop
            at its end.
    """

    pattern: Word | None = Field(default=None, min_length=1)
    group: int | Word | None = None
    path: JsonPath | None = None
    after: Word | None = Field(default=None, min_length=1)
    line: Literal["first", "last"] | None = None
    match: Literal["first", "last"] = "last"
    clean: bool = False

    @property
    def key(self) -> str:
        """The key that is set: pattern, path, after or line."""
        return next(key for key in _WAYS if getattr(self, key) is not None)

    @cached_property
    def expression(self) -> Pattern:
        return compiled(self.pattern or "")

    @cached_property
    def place(self) -> Path:
        return json_path(self.path or "$")

    @field_validator("pattern")
    @classmethod
    def _expression(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            declared(pattern)
        return pattern

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = [key for key in _WAYS if getattr(self, key) is not None]
        if len(ways) != 1:
            given = f"has {' and '.join(ways)}" if ways else "has none of them"
            raise ValueError(f"extract takes exactly one of {', '.join(_WAYS)}; this one {given}")
        if self.pattern is None:
            if self.group is not None:
                raise ValueError("`group` needs `pattern`, which is not set")
            return self
        known = re.compile(self.pattern)
        names = [*range(known.groups + 1), *known.groupindex]
        if self.group is not None and self.group not in names:
            groups = ", ".join(map(str, names[1:])) or "none"
            raise ValueError(f"the pattern has no group {self.group!r}; it has {groups}")
        return self


_WAYS = ("pattern", "path", "after", "line")
