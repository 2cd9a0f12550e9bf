"""The names by which labels are compared, counted and shown: 3 and "3" are one label, 3.1 and "3.10" are two."""

from __future__ import annotations

import hashlib
import math
import re
from typing import TypeGuard

from evalflow.values.jsonvalues import written

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "false": False}
_LONGEST = 300  # characters of a number
_LONGEST_NAME = 500  # characters
_SHOWN = 100
_EMPTY = "(empty)"


def label_name(label: object) -> str:
    """A label as text. Numbers are written without needless zeros, true and false small; what is not a label as JSON.

    Of a long one, such as a whole answer, it is the beginning, with a digest that tells it from others.
    """
    if isinstance(label, str):
        text = label.strip()
        name = text.lower() if text.lower() in _BOOLEANS else text or _EMPTY
    else:
        name = written(plain_number(label)) if is_number(label) else written(label)
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_SHOWN]}… ({hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]})"


def read_like(like: object, label: object) -> object:
    """A predicted label as the type of the true one: a text that plainly writes a number or a boolean is one.

    Anything else is returned as it is, and so is a label of another name.
    """
    if not isinstance(label, str):
        return label
    text = label.strip()
    if isinstance(like, bool):
        return _BOOLEANS.get(text.lower(), label)
    if is_number(like) and len(text) <= _LONGEST and _NUMBER.fullmatch(text):
        number = float(text) if any(mark in text for mark in ".eE") else int(text)
        return plain_number(number) if is_number(number) else label
    return label


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is a finite number, and not true or false."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def plain_number(number: float) -> float:
    """One form of equal numbers: 1.0 becomes 1."""
    return int(number) if isinstance(number, float) and number.is_integer() else number
