"""What people say of answers: read from files, bound to the answers they saw, and drawn to be asked for."""

from evalflow.labels.draw import Candidate, Drawn, Key, draw, draw_groups, score_strata, tag_stratum
from evalflow.labels.read import (
    HERE,
    Answered,
    Bound,
    Elsewhere,
    Given,
    LeftOut,
    Parsed,
    answer_hash,
    bind,
    parse,
    parse_case,
    plain_name,
)
from evalflow.labels.sheet import CELL, Sheet, key_of, read_sheet

__all__ = [
    "CELL",
    "HERE",
    "Answered",
    "Bound",
    "Candidate",
    "Drawn",
    "Elsewhere",
    "Given",
    "Key",
    "LeftOut",
    "Parsed",
    "Sheet",
    "answer_hash",
    "bind",
    "draw",
    "draw_groups",
    "key_of",
    "parse",
    "parse_case",
    "plain_name",
    "read_sheet",
    "score_strata",
    "tag_stratum",
]
