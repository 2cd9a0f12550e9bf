"""Label sheets: answers for people to label, written as CSV for spreadsheets or as JSON lines, and read back.

Answers are drawn at random, so that the labels are representative of all answers: every answer gets a pseudo-random
number from the seed and its key, and the smallest are drawn. So a larger sample with the same seed contains the smaller
one, and a sample can be extended later.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from evalflow.errors import Problem, UserError
from evalflow.labels.columns import count, number, plain_name
from evalflow.paths import replacing, safe_text
from evalflow.records import Case

Key = tuple[str, str, str, int]  # dataset, case_id, target, target_repeat
_STRATA = 5
_ADVISED = 50
CELL = ("dataset", "case_id", "target", "target_repeat")  # the columns that identify an answer


@dataclass(frozen=True, slots=True)
class UnlabelledAnswer:
    """An answer that may be sampled; its score is the judge's mean, its group that of the case, else the case."""

    key: Key
    score: float | None
    tags: tuple[str, ...] = ()
    group: str = ""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A sample of answers: how many each represents, in random order, so that its first part is a random sample too.

    `strata` has the number of sampled and of all answers by stratum ("all" without stratification), `groups` that of
    the groups of the sampled answers, and of all groups.
    """

    weights: Mapping[Key, float]
    strata: Mapping[str, tuple[int, int]]
    groups: tuple[int, int]


def advised_size(answers: int | None) -> int:
    """Return how many of a run's answers to label if nobody has said how many; `answers` is their number, if known."""
    return min(_ADVISED, answers or _ADVISED)


def draw(
    candidates: Sequence[UnlabelledAnswer],
    size: int,
    seed: int,
    *,
    stratum: Callable[[UnlabelledAnswer], str] | None = None,
    already: Collection[Key] = (),
) -> Drawn:
    """Draw `size` answers, including those drawn before (`already`); UserError for more strata than answers.

    Without strata every answer has the same chance and weight 1. With strata the sample is split equally between them,
    up to the size of each. An answer's weight is then the size of its stratum divided by the number drawn from it.
    """
    by_stratum: dict[str, list[UnlabelledAnswer]] = {}
    for answer in candidates:
        by_stratum.setdefault(stratum(answer) if stratum else "all", []).append(answer)
    if len(by_stratum) > size:
        what = f"{size} answers cannot be drawn from {len(by_stratum)} strata"
        raise UserError(Problem(what, "--sample", "draw more, or leave --stratify out"))
    chosen: dict[Key, float] = {}
    strata: dict[str, tuple[int, int]] = {}
    shares = _shares({name: len(own) for name, own in by_stratum.items()}, size)
    for name, own in sorted(by_stratum.items()):
        first = sorted(own, key=lambda answer: (answer.key not in already, _ticket(answer.key, seed)))
        taken = first[: max(shares[name], sum(answer.key in already for answer in own))]
        strata[name] = (len(taken), len(own))
        chosen |= {answer.key: len(own) / len(taken) if stratum else 1.0 for answer in taken}
    order = sorted(chosen, key=lambda key: _ticket(key, seed))
    everything = {(answer.key[0], answer.group) for answer in candidates}
    sampled = {(answer.key[0], answer.group) for answer in candidates if answer.key in chosen}
    return Drawn({key: chosen[key] for key in order}, strata, (len(sampled), len(everything)))


def draw_groups(
    candidates: Sequence[UnlabelledAnswer], size: int, seed: int, *, already: Collection[Key] = ()
) -> Drawn:
    """Draw whole groups of answers, each with the same chance; the answers of a group are adjacent, and weigh 1.

    The number of groups is fixed in advance from their mean size: drawing until there are enough answers would favour
    large groups. So there may be more or fewer answers than requested.
    """
    groups: dict[tuple[str, str], list[Key]] = {}
    for answer in candidates:
        groups.setdefault((answer.key[0], answer.group), []).append(answer.key)
    before = {name for name, own in groups.items() if any(key in already for key in own)}
    wanted = max(1, len(before), min(len(groups), round(size * len(groups) / len(candidates))))
    order = sorted(groups, key=lambda name: (name not in before, _ticket((*name, "", 0), seed)))
    chosen = [key for name in order[:wanted] for key in groups[name]]
    return Drawn(dict.fromkeys(chosen, 1.0), {"all": (len(chosen), len(candidates))}, (wanted, len(groups)))


def score_strata(candidates: Iterable[UnlabelledAnswer]) -> Callable[[UnlabelledAnswer], str]:
    """Strata by the judge's score: one per value if there are few, else quintiles; one for no score."""
    scores = sorted(answer.score for answer in candidates if answer.score is not None)
    few = len(set(scores)) <= _STRATA
    cuts = [scores[len(scores) * part // _STRATA] for part in range(1, _STRATA)] if scores else []

    def stratum(answer: UnlabelledAnswer) -> str:
        score = answer.score
        if score is None:
            return "without a score"
        return f"score {score:.3g}" if few else f"fifth {1 + sum(score >= cut for cut in cuts)} by score"

    return stratum


def tag_stratum(answer: UnlabelledAnswer) -> str:
    """The stratum of an answer by its case's first tag."""
    return answer.tags[0] if answer.tags else "without a tag"


def _shares(sizes: Mapping[str, int], wanted: int) -> dict[str, int]:
    shares: dict[str, int] = {}
    left = wanted
    for place, name in enumerate(sorted(sizes, key=lambda name: (sizes[name], name))):
        shares[name] = min(sizes[name], left // (len(sizes) - place))
        left -= shares[name]
    return shares


def _ticket(key: Key, seed: int) -> bytes:
    text = "\0".join(map(str, key)).encode("utf-8", "surrogatepass")
    salt = seed.to_bytes(16, "little", signed=True)
    return blake2b(text, digest_size=8, salt=salt, person=b"labels").digest()  # independent of the sampling of cases


SHEET_COLUMNS = (
    "case_id",
    "dataset",
    "target",
    "target_repeat",
    "metric",
    "answer_hash",
    "weight",
    "group",
    "question",
    "answer",
    "contexts",
    "reference",
    "scale",
    "value",
    "by",
    "comment",
)
"""Columns of a sheet. The judge's score is left out, because it would bias people."""

_CONTEXTS, _REFERENCE = 6000, 2000


def shown_case(case: Case) -> dict[str, str]:
    """The texts of an answered case that a person needs to read: question, answer, contexts, reference."""
    passages = [f"{c.title}\n{c.text}" if c.title else c.text for c in case.contexts or ()]
    answer = case.answer
    if answer is None and case.actual is not None:
        answer = json.dumps(case.actual, ensure_ascii=False, default=str)
    return {
        "question": _conversation(case),
        "answer": answer or "",
        "contexts": _short("\n\n".join(passages), _CONTEXTS),
        "reference": _short(case.reference_text or "", _REFERENCE),
    }


def write_label_sheet(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write the rows, SHEET_COLUMNS first; CSV begins with a byte order mark, so that spreadsheets read it as UTF-8."""
    table = [dict(row) for row in rows]
    columns = list(dict.fromkeys((*SHEET_COLUMNS, *(column for row in table for column in row))))
    as_csv = path.suffix.lower() == ".csv"
    with replacing(path, newline="") as file:
        if not as_csv:
            lines = ({column: row.get(column) for column in columns} for row in table)
            file.writelines(json.dumps(line, ensure_ascii=False, default=str) + "\n" for line in lines)
            return
        file.write("\ufeff")
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([_cell(row.get(column)) for column in columns] for row in table)


def _conversation(case: Case) -> str:
    if not case.history:
        return case.question or ""
    return "\n".join(f"{turn.role}: {turn.text}" for turn in case.messages)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _cell(value: object) -> object:
    return safe_text(value) if isinstance(value, str) else "" if value is None else value


@dataclass(frozen=True, slots=True)
class Sheet:
    """A parsed label sheet: `weighted` after a stratified draw, and `grouped` after a draw of whole groups."""

    rows: Sequence[dict[str, object]]
    answers: Mapping[Key, str]
    asked: Set[tuple[Key, str]]
    weighted: bool
    grouped: bool


def read_sheet(rows: Iterable[tuple[str, dict[str, object]]]) -> tuple[Sheet, list[Problem]]:
    """Read a sheet's rows; returns the sheet, and a problem for each invalid row."""
    valid: list[dict[str, object]] = []
    answers: dict[Key, str] = {}
    asked: set[tuple[Key, str]] = set()
    weighted = grouped = False
    problems: list[Problem] = []
    for where, row in rows:
        try:
            key = key_of(row)
            asked.add((key, plain_name(row["metric"])))
            answers[key] = plain_name(row["answer_hash"])
            weighted |= number(row["weight"]) != 1
            grouped |= bool(row.get("group"))
        except (KeyError, TypeError, ValueError):
            what = "this is not a row of a sheet that calibrate --sample wrote"
            problems.append(Problem(what, where, "name another file: --out FILE"))
            continue
        valid.append(row)
    return Sheet(valid, answers, asked, weighted, grouped), problems


def key_of(row: Mapping[str, object]) -> Key:
    """The key of the row's answer; KeyError, TypeError or ValueError if a part is missing or invalid."""
    dataset, case_id, target = (plain_name(row[name]) for name in CELL[:3])
    return dataset, case_id, target, count(row["target_repeat"])
