"""`{{placeholders}}` in rules, filled from the case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from evalflow.metrics.inputs import look_up
from evalflow.records import Case

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")


def filled(text: str, case: Case) -> str:
    """A rule with each placeholder's value: a column of the case by its name, or a dotted path such as metadata.brand.

    Raises:
        ValueError: The case has no such value; names the placeholder.
    """

    def value(found: re.Match[str]) -> str:
        name = found[1]
        known: Mapping[str, Any] = {
            **case.vars, "metadata": case.metadata or {}, "vars": case.vars, "question": case.question,
            "reference": case.reference, "expected": case.expected,
        }  # fmt: skip
        value = known.get(name, known.get(name.replace(" ", "_")))
        value = look_up(name, known) if value is None else value
        if not isinstance(value, str | int | float) or value == "":
            raise ValueError(f"the case has nothing to fill {found[0]} with")
        return str(value)

    return _PLACEHOLDER.sub(value, text)
