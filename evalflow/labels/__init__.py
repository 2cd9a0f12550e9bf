"""People's labels: sample answers to label, read labels from files, and bind them to the answers."""

from evalflow.labels.draw import Drawn, Key, UnlabelledAnswer, draw, draw_groups, score_strata, tag_stratum
from evalflow.labels.read import (
    HERE,
    Bound,
    Elsewhere,
    Given,
    LabelledAnswer,
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
    "Bound",
    "Drawn",
    "Elsewhere",
    "Given",
    "Key",
    "LabelledAnswer",
    "LeftOut",
    "Parsed",
    "Sheet",
    "UnlabelledAnswer",
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
