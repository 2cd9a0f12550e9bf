"""Cases with another tool's scores and with people's labels.

Each score name becomes a metric of the kind `recorded`, beside evalflow's equivalent metric.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from evalflow import paths
from evalflow.addons.interop.importers.columns import Columns, finite, joined
from evalflow.addons.interop.importers.files import (
    DataFile,
    ImportedConfig,
    ImportedExperiment,
    ImportSource,
    dataset_option,
    key_for,
    recorded_option,
)
from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.readers import WRITE_TEXT
from evalflow.addons.interop.importers.same_cases import SameCases, turns_of
from evalflow.addons.interop.importers.scores import PersonsScore, RecordedScores, Verdicts
from evalflow.addons.interop.importers.secrets import without_secrets
from evalflow.config.yaml_text import safe_yaml
from evalflow.datasets import irregular
from evalflow.datasets.messages import read_messages
from evalflow.errors import Problem, UserError, command
from evalflow.metrics.registry import Calls, calls_of
from evalflow.paths import shown
from evalflow.records.scores import Direction
from evalflow.values.jsonvalues import as_map, kind

PARTS = ("cases", "scores")
_FILLED = frozenset({"messages", "history", "answer"})
"""Fields that every case has, or that the target fills."""
_OTHER: Mapping[Direction, Direction] = {
    "higher_is_better": "lower_is_better",
    "lower_is_better": "higher_is_better",
}
_NOTED = 12  # maximum names in a note
_WRITE = "write a metric: docs/metrics.md; its old scores are imported"


@dataclass(frozen=True, slots=True)
class Counterparts:
    """evalflow's equivalents of a tool's metrics.

    Attributes:
        like: evalflow's metric, by the plain name of the tool's.
        hints: What to do about metrics without an equivalent, by plain name.
        plain: Returns the plain name of a score's name.
        opposite: The plain names of metrics whose scores run opposite to evalflow's.
    """

    like: Mapping[str, str]
    hints: Mapping[str, str] = field(default_factory=dict[str, str])
    plain: Callable[[str], str] = str.lower
    opposite: Collection[str] = ()


@dataclass(slots=True)
class RecordedCases:
    """The cases of one data file, and the names of their scores.

    Attributes:
        labels: The file of people's labels.
        tool: The tool's name, for people.
        column: The column of data/ that holds the scores.
        counterparts: evalflow's equivalents, if the tool's metric names have a fixed meaning.
        verdicts: The tool's thresholds and verdicts (passed or failed), by score name.
        lower: Names of scores for which lower is better.
        undirected: Names of scores whose direction is at most guessed unless the tool gave verdicts.
        asked: Metrics of evalflow that the cases declare.
        judged: Whether a judge decides any check that the cases declare.
        fields: The fields that cases have.
        ids, numbered: Digests of the cases' own ids; whether any case has its number as its id.
        repeated: How many rows had the id of an earlier one.
        irregular: Whether the turns of a conversation do not alternate.
        answered, recorded: How many cases have an answer, and how many an answer or an error.
        same: The dataset whose cases these are, answered by another system; None: they are new cases.
    """

    imported: ImportedConfig
    file: DataFile
    tool: str = ""
    column: str = ""
    counterparts: Counterparts | None = None
    labels: DataFile | None = None
    scores: RecordedScores = field(default_factory=RecordedScores)
    verdicts: defaultdict[str, Verdicts] = field(default_factory=lambda: defaultdict(Verdicts))
    lower: set[str] = field(default_factory=set[str])
    undirected: set[str] = field(default_factory=set[str])
    asked: dict[str, None] = field(default_factory=dict[str, None])
    judged: bool = False
    fields: set[str] = field(default_factory=set[str])
    ids: set[int] = field(default_factory=set[int])
    numbered: bool = False
    repeated: int = 0
    irregular: bool = False
    recorded: int = 0
    answered: int = 0
    same: SameCases | None = None

    @property
    def ledger(self) -> Ledger:
        return self.imported.ledger

    def write(self, case: Mapping[str, object], scores: Iterable[tuple[object, object]], where: str) -> None:
        """Write a case without its secrets, and count its scores; scores whose name is not text are listed."""
        ledger = self.ledger
        row = writable({"id": "", **case} | {"id": self._id(case)}, ledger, where)
        plain: list[tuple[str, object]] = []
        for name, value in scores:
            if not isinstance(name, str):
                ledger.leave("scores", "score", where, f"its name is {kind(name)}, not text", WRITE_TEXT)
            elif isinstance(value, PersonsScore) and self.labels:
                self._label(self.labels, str(row["id"]), name, value, where)
            else:
                plain.append((name, value))
        numbers = self.scores.read(plain, where, ledger)
        self.file.write(row | ({self.column: numbers} if numbers else {}), where)
        self.fields |= _fields_in(row)
        self.irregular = self.irregular or is_irregular(row)
        self.answered += "answer" in case
        self.recorded += "answer" in case or "failure" in case

    def take(
        self,
        row: Columns,
        read: Callable[[], Mapping[str, object]],
        scores: Iterable[tuple[object, object]],
        hint: str = "",
        kept_as: Callable[[object], object] = lambda value: value,
    ) -> None:
        """Write the case of a row with its scores; keys that `read` leaves unread are kept in `vars`.

        If `read` raises Untranslatable, the row and its scores are listed. `kept_as` parses the kept cells.
        """
        ledger, declared = self.ledger, list(scores)
        ledger.found("cases")
        try:
            case = read()
        except Untranslatable as failure:
            ledger.left("cases", "row", row.where, failure.reason, failure.hint or hint)
            if declared:
                ledger.found("scores", len(declared))
                ledger.left("scores", "score", row.where, "its row is not a case", count=len(declared))
            return
        kept = joined(as_map(case.get("vars")), {name: kept_as(cell) for name, cell in row.rest().items()})
        row.close(ledger)
        self.write({**case, **({"vars": kept} if kept else {})}, declared, row.where)

    def _id(self, case: Mapping[str, object]) -> str:
        """The case's own id, or its number; a repeated id gets a number appended.

        A case that is also in `same` has its id there.
        """
        same = self.same.id_of(case) if self.same else None
        if same is not None:
            self.ids.add(_id_digest(same))
            return same
        own = case.get("id")
        if not isinstance(own, str | int) or isinstance(own, bool) or own == "":
            self.numbered = True
            own = self.file.count + 1
            if self.same:
                own = f"row-{own}"
            if not self.ids and not self.same:
                return str(own)
        for number in count(1):
            case_id = str(own) if number == 1 else f"{own}#{number}"
            digest = _id_digest(case_id)
            is_number = self.numbered and case_id.isdecimal() and 0 < int(case_id[:20]) <= self.file.count
            if digest not in self.ids and not is_number and not (self.same and case_id in self.same.ids):
                self.ids.add(digest)
                self.repeated += number > 1
                return case_id
        raise AssertionError

    def _label(self, labels: DataFile, case: str, name: str, label: PersonsScore, where: str) -> None:
        """Write a label in the format of docs/labels.md; its metric is the score's name until all metrics are known."""
        self.ledger.found("labels")
        if not isinstance(label.value, str | int | float) or label.value == "":
            self.ledger.left("labels", f"label {name}", where, "it has no value")
            return
        about = {"by": label.by, "comment": label.comment, "at": label.at}
        texts = {key: value for key, value in about.items() if isinstance(value, str) and value}
        row = {"case_id": case, "metric": name, "value": label.value, **texts}
        labels.write(writable(row, self.ledger, where), where)

    def declare(self, source: ImportSource, key: str, file: str) -> None:
        """Add the dataset, a metric for each score, and the experiment; UserError if there are no cases."""
        if not self.file.count:
            raise self.ledger.nothing_taken(Problem("it has no cases", file))
        imported = self.imported
        loose = {"allow_irregular": True} if self.irregular else {}
        if self.repeated:
            what = "have the id of an earlier row" if self.repeated > 1 else "has the id of an earlier row"
            imported.notes.append(
                f"{self.repeated:,} {'rows' if self.repeated > 1 else 'row'} of {file} {what}: ID#2 and so on"
            )
        name = self.same.name if self.same else key
        imported.datasets[key] = dataset_option(key, f"Cases of {file}.", name=name, **loose)
        if self.same:
            imported.targets[key] = {"defaults": ["recorded", "_self_"], "name": key}
        like = self._like(file)
        old = [self._declare_score(key, name, score, file) for name, score in self.scores.keys.items()]
        complete = self.recorded == self.file.count and self.answered
        only_scores = old and not self.answered
        imported.has_one_system = bool(old and complete)
        imported.notes += self._guessed_directions()
        generate = False if complete or only_scores else "missing" if self.answered else True
        limits = {name: {"threshold": limit} for name, limit in like.items() if limit is not None}
        more: dict[str, object] = {"metric": limits} if limits else {}
        metrics = [*self.asked, *like, *old] or ["relevance"]
        target = key if self.same else ""
        imported.experiments[key] = ImportedExperiment(key, metrics, generate, target, more=more)
        if not like and not old and not self.asked:
            imported.notes.append("the file has no scores: the experiment has metric=relevance; choose your own")
        elif not self.judged and not any(_shipped(name).asks_judge for name in like):
            imported.unjudged.add(key)
        if self.labels and self.labels.count:
            self._name_labels(key, dict(zip(self.scores.keys, old, strict=True)))

    def _guessed_directions(self) -> Iterator[str]:
        """Notes on the scores whose direction neither the file nor the tool decides."""
        guessed = [
            name
            for name in self.scores.keys
            if name in self.undirected and (name not in self.verdicts or self.verdicts[name].rule(None)[0] is None)
        ]
        for which, is_lower in (("lower", True), ("higher", False)):
            if names := [name for name in guessed if (name in self.lower) is is_lower]:
                more = f" and {len(names) - _NOTED:,} more" if len(names) > _NOTED else ""
                what = f"{which} is taken as better for {', '.join(names[:_NOTED])}{more}"
                yield f"{what}: else set `direction` in conf/metric/"

    def _name_labels(self, key: str, metrics: Mapping[str, str]) -> None:
        """Give labels the metric of the scores with their name. Other labels go to a separate file."""
        imported = self.imported
        path = imported.data.pop(f"{key}_labels.jsonl")
        files = {"labels": path.with_suffix(".named"), "labels_waiting": path.with_suffix(".waiting")}
        names: dict[str, dict[str, None]] = {kind: {} for kind in files}
        with path.open(encoding="utf-8") as labels, ExitStack() as stack:
            opened = {kind: stack.enter_context(file.open("w", encoding="utf-8")) for kind, file in files.items()}
            for line in labels:
                row = json.loads(line)
                kind = "labels" if row["metric"] in metrics else "labels_waiting"
                row["metric"] = metrics.get(row["metric"]) or key_for(row["metric"], (), "label")
                names[kind].setdefault(row["metric"])
                opened[kind].write(json.dumps(row, ensure_ascii=False) + "\n")
        imported.data |= {f"{key}_{kind}.jsonl": file for kind, file in files.items() if names[kind]}
        if names["labels"]:
            hint = f"after a run: {command('calibrate', 'outputs/latest', '--labels', f'data/{key}_labels.jsonl')}"
            imported.notes.append(f"people's labels of {', '.join(names['labels'])}; {hint}")
        if names["labels_waiting"]:
            waiting = ", ".join([*names["labels_waiting"]][:12])
            imported.notes.append(f"labels in data/{key}_labels_waiting.jsonl need a metric of their name: {waiting}")

    def _declare_score(self, key: str, name: str, score: str, file: str) -> str:
        """Add the metric that reads the tool's score, which passes exactly if it passed in the tool."""
        metric = key_for(f"{key} {score}", self.imported.metrics, "metric")
        option = recorded_option(f"{self.column}.{score}", f"{self.tool}'s own score: {name}.")
        if self.same:
            taken = [one["name"] for one in self.imported.metrics.values() if isinstance(one.get("name"), str)]
            option["name"] = key_for(f"{self.same.option} {score}", [str(one) for one in taken], "metric")
        rule = self._rule(name)
        if name in self.verdicts:
            self.verdicts[name].list_unread(name, rule, self.ledger, file)
        direction, threshold = rule
        option |= {"threshold": threshold, "direction": direction or self._prior(name) or "higher_is_better"}
        self.imported.metrics[metric] = option
        return metric

    def _rule(self, name: str) -> tuple[Direction | None, float | None]:
        """The direction and the threshold of the tool's own score."""
        prior = self._prior(name) or "higher_is_better"
        if name not in self.verdicts:
            return prior, None
        verdicts = self.verdicts[name]
        return verdicts.rule(prior if verdicts.judged or name not in self.undirected else None)

    def _prior(self, name: str) -> Direction | None:
        """The direction that the name of a score suggests."""
        metric = self._counterpart(name)
        if name in self.lower or metric is None:
            return "lower_is_better" if name in self.lower else None
        direction = _shipped(metric).direction
        is_opposite = self.counterparts is not None and self.counterparts.plain(name) in self.counterparts.opposite
        return direction if not is_opposite else _OTHER[direction]

    def _counterpart(self, name: str) -> str | None:
        return self.counterparts.like.get(self.counterparts.plain(name)) if self.counterparts else None

    def _like(self, file: str) -> dict[str, float | None]:
        """The equivalent metrics whose needs are met, with their thresholds; others are listed."""
        thresholds: dict[str, float | None] = {}
        for name in self.scores.names if self.counterparts else ():
            self.ledger.found("metrics")
            metric = self._counterpart(name)
            if metric is None:
                hint = self.counterparts.hints.get(self.counterparts.plain(name), _WRITE) if self.counterparts else ""
                hint = f"nearest: {hint}" if hint.startswith("metric=") else hint
                reason = "evalflow has no equivalent metric"
                self.ledger.left("metrics", f"metric {name}", file, reason, hint)
            elif missing := _shipped(metric).fields - self.fields:
                self.ledger.left("metrics", f"metric {name}", file, f"no case has {', '.join(sorted(missing))}")
            else:
                self.ledger.took("metrics")
                direction, threshold = self._rule(name)
                thresholds[metric] = threshold if direction == _shipped(metric).direction else None
        return thresholds


@contextmanager
def recorded_cases(
    source: ImportSource,
    tool: str,
    column: str,
    counterparts: Counterparts | None = None,
    *,
    path: Path | None = None,
    key: str | None = None,
    imported: ImportedConfig | None = None,
) -> Generator[RecordedCases]:
    """Open data/KEY.jsonl for cases, and a file for labels; the dataset is declared when the block ends.

    `path` and `key` are those of the source by default, and `imported` is a new one; the others as in RecordedCases.
    """
    key, path = key or source.name, path or source.path
    imported = imported or ImportedConfig(ledger=Ledger(PARTS))
    with source.rows(imported, key) as rows, source.rows(imported, f"{key}_labels", "labels") as labels:
        cases = RecordedCases(imported, rows, tool, column, counterparts, labels, same=source.same)
        yield cases
    if source.same:
        if source.same.is_used:
            what = "it has several datasets, but --dataset names only one"
            raise UserError(Problem(what, shown(path), "leave out --dataset"))
        source.same.is_used = True
        imported.notes.append(source.same.note(cases.file.count, shown(path)))
    cases.declare(source, key, shown(path))
    if not labels.count:
        imported.data.pop(f"{key}_labels.jsonl").unlink()


def is_irregular(case: Mapping[str, object]) -> bool:
    """Whether the turns of a case's conversation do not alternate."""
    return any(irregular(read_messages(turns_of(case))))


def _fields_in(case: Mapping[str, object]) -> set[str]:
    """The fields that metrics find in a case."""
    fields = {name for name, value in case.items() if value not in (None, [], "")}
    if "messages" in fields:
        fields.add("question")
    return fields | {f"vars.{name}" for name in as_map(case.get("vars"))}


def _id_digest(case_id: str) -> int:
    return int.from_bytes(hashlib.blake2b(case_id.encode("utf-8", "replace"), digest_size=8).digest())


def writable(row: Mapping[str, object], ledger: Ledger, where: str) -> dict[str, object]:
    """The row without secrets and infinite numbers, each of which is listed."""
    return {key: finite(value, ledger, where) for key, value in without_secrets(row, ledger, where).items()}


@dataclass(frozen=True, slots=True)
class _ShippedMetric:
    """Facts from the YAML of a metric that ships."""

    kind: str
    needs: Sequence[str]
    direction: Direction
    declared: Mapping[str, object]

    @property
    def fields(self) -> set[str]:
        """The case fields that it needs and no target fills."""
        return {"checks"} if self.kind == "checks" else {*self.needs} - _FILLED

    @property
    def asks_judge(self) -> bool:
        """Whether it asks a model; imported checks are rules."""
        return self.kind not in ("similarity", "checks") and calls_of(self.declared) != Calls()


@cache
def _shipped(name: str) -> _ShippedMetric:
    path = paths.share_dir() / "conf" / "metric" / f"{name}.yaml"
    declared: dict[str, Any] = {**as_map(safe_yaml(path.read_text(encoding="utf-8")))}
    return _ShippedMetric(declared["kind"], declared["needs"], declared["direction"], declared)
