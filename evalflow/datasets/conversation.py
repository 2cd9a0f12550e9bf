"""A whole file as one conversation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evalflow.datasets.build import content_id
from evalflow.errors import Problem
from evalflow.records import Case


def conversation(
    index: int, rows: Iterable[tuple[str, Case | Sequence[Problem]]], *, allow_irregular: bool
) -> Case | Sequence[Problem] | None:
    """The rows' user messages, turn by turn, as one case; None where there are no rows.

    Answer, reference and group are the last row's. `vars["outputs"]` lists every row's reference (None where a row
    has none), so that earlier turns can be compared too.

    Args:
        index: The case's position in the dataset.
        rows: Where each row stands, and its own case, whose turns are in order, or what is wrong with it.
        allow_irregular: Whether a system message may stand in its midst, which nothing but the joining can bring about.
    """
    turns: list[Case] = []
    problems: list[Problem] = []
    for where, row in rows:
        if not isinstance(row, Case):
            problems += row
        elif not row.messages:
            problems.append(Problem("a turn of a conversation needs a question", where, "name its column in `fields`"))
        elif turns and not allow_irregular and any(message.role == "system" for message in row.messages):
            what = "a system message can only stand at the beginning of a conversation, which is the first row"
            problems.append(Problem(what, where, f"dataset.{row.dataset}.allow_irregular=true lets it pass"))
        else:
            turns.append(row)
    if problems or not turns:
        return problems or None
    outputs = [turn.reference for turn in turns]
    return Case(
        dataset=turns[-1].dataset,
        index=index,
        id=content_id([turn.id for turn in turns]),
        messages=tuple(message for turn in turns for message in turn.messages),
        answer=turns[-1].answer,
        reference=turns[-1].reference,
        group=turns[-1].group,
        vars={"outputs": outputs} if any(output is not None for output in outputs) else {},
    )
