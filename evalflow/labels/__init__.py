"""What people say of answers: read from files, bound to the answers they saw, and drawn to be asked for."""

from evalflow.labels.bind import Answered, Bound, LeftOut, bind
from evalflow.labels.digest import answer_hash
from evalflow.labels.draw import Candidate, Drawn, draw, score_strata, tag_stratum
from evalflow.labels.parse import Given, Parsed, parse, parse_case

__all__ = [
    "Answered",
    "Bound",
    "Candidate",
    "Drawn",
    "Given",
    "LeftOut",
    "Parsed",
    "answer_hash",
    "bind",
    "draw",
    "parse",
    "parse_case",
    "score_strata",
    "tag_stratum",
]
