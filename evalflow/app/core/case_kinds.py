"""Group cases that the checks before a run cannot tell apart, so that each check looks at few of many."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

from evalflow.app.core.assemble import Parts
from evalflow.app.core.data_checks import SHOWN
from evalflow.app.core.text_checks import script_in
from evalflow.datasets import ReadingNotes
from evalflow.engine.plan import case_digest
from evalflow.llm.thoughts import split_thoughts
from evalflow.metrics.base import BaseMetric
from evalflow.protocols import Metric
from evalflow.records import Case
from evalflow.values.jsonvalues import is_mapping, is_sequence

_KEPT = 1000
"""The most cases that are kept, and about the most kinds, since each may take kilobytes."""
_OF_ANSWERS = ("finish_reason", "thoughts", "full_answer")
"""Variables that are read as parts of a recorded answer."""

Counted = tuple[Case, int]
"""A case, and how many cases of its kind it stands for."""


class CaseKinds:
    """What the checks need of a run's cases. It is kept after the first reading, unless there are too many kinds.

    Attributes:
        repeated: The first cases whose id an earlier case of their dataset has.
        notes: What reading each dataset has left out or changed.
    """

    def __init__(self) -> None:
        self.repeated: list[Case] = []
        self.notes: Mapping[str, ReadingNotes] = {}
        self._known: list[Counted] | None = None

    def of(
        self,
        cases: Iterable[Case],
        notes: Mapping[str, ReadingNotes],
        *,
        each: bool = False,
        on_case: Sequence[Callable[[Case], None]] = (),
    ) -> Iterator[Counted]:
        """The first cases of each kind, in order, then another one that stands for the rest of its kind.

        With `each` these are all cases, since some check reads more of them than their kind; so are those that follow
        too many kinds. What is known is not read again, unless there are functions `on_case`, which get every case; the
        caller promises that the cases are the same.
        """
        if self._known is not None and not each and not on_case:
            yield from self._known
            return
        seen, repeated, known = set[int](), list[Case](), list[Counted]()
        counts, others = dict[Hashable, int](), dict[Hashable, Case]()
        for case in cases:
            digest = case_digest(case)
            if digest in seen and len(repeated) < SHOWN:
                repeated.append(case)
            seen.add(digest)
            for call in on_case:
                call(case)
            kind = None if each or len(counts) > _KEPT else _kind(case)
            if kind is not None:
                counts[kind] = number = counts.get(kind, 0) + 1
                if number > SHOWN:
                    others.setdefault(kind, case)
                    continue
            if len(known) <= _KEPT:
                known.append((case, 1))
            yield case, 1
        self.repeated, self.notes = repeated, notes
        rest = [(case, counts[kind] - SHOWN) for kind, case in others.items()]
        if len(known) + len(rest) <= _KEPT and not each:
            self._known = known + rest
        yield from rest


def suffice(parts: Parts) -> bool:
    """Whether no check before the run reads more of a case than its kind."""
    target = parts.settings.run.target
    if target.extract is not None or getattr(target, "prompt", None) is not None:
        return False
    return all(
        not getattr(metric.config, "custom", None)
        if metric.config.kind == "checks"
        else metric.parts or _binds_alike(metric)
        for metric in parts.metrics.values()
    )


def _binds_alike(metric: Metric) -> bool:
    """Whether the metric scores every case that has the fields it needs, also if the case does not name it."""
    own = type(metric)
    return issubclass(own, BaseMetric) and own.bind is BaseMetric.bind  # pyright: ignore[reportUnknownMemberType]


def _kind(case: Case) -> Hashable | None:
    """Return what checks read of a case: which fields it has, and their forms; None for one that is checked by itself.

    Whatever a check before the run reads of a case must be in it, or `suffice` must be false for that run.
    """
    alone = case.checks, case.labels, case.scenario, case.failure
    if any(value is not None for value in alone) or not case.vars.keys().isdisjoint(_OF_ANSWERS):
        return None
    if any(message.api or message.metadata for message in case.messages):
        return None
    demo, contexts = case.demo_answer, case.contexts
    return (
        case.dataset,
        tuple((message.role, _form(message.content)) for message in case.messages),
        _form(case.answer),
        case.answer is not None and split_thoughts(case.answer)[0] is not None,
        tuple(map(_form, case.references)),
        None if contexts is None else bool(contexts),
        *map(_form, (case.expected, case.actual, case.metadata, case.vars, case.persona, case.goal, case.facts)),
        demo and (_form(demo.content), _form(demo.metadata)),
        case.group is None,
        script_in(case),
    )


def _form(value: object) -> Hashable:
    """A value without its content: the keys of objects, and whether texts are blank."""
    if value is None:  # as most fields of most cases are
        return None
    if isinstance(value, str):
        return "" if not value or value.isspace() else "text"
    if is_mapping(value):
        return tuple([(key, _form(inner)) for key, inner in value.items()])
    if is_sequence(value):
        return type(value), len(value) > 0, all(isinstance(one, str) for one in value)
    return type(value)
