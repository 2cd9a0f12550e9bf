"""The typed configuration. Hydra composes; these models validate, and refuse every key they do not know."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from evalflow.records import Direction

IDENTIFIER = re.compile(r"[a-z][a-z0-9_]*\Z")
MANY = 10**15
"""More cases than anybody has, and less than machines count to."""
FIELDS = (
    "question", "history", "messages", "answer", "reference", "contexts", "expected", "actual", "metadata",
    "demo_answer", "vars",
)  # fmt: skip
"""What `needs` and templates may name."""


class Strict(BaseModel):
    """A frozen model without room for unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


def _unquoted_word(value: Any) -> Any:
    if isinstance(value, bool):
        word = "true/yes/on" if value else "false/no/off"
        raise ValueError(f"YAML reads an unquoted {word} as a boolean; put it in quotes")
    return value


Word = Annotated[str, BeforeValidator(_unquoted_word)]
"""Text where YAML 1.1's yes, no, on and off would silently become booleans."""


class JudgeConfig(Strict):
    """Keys that every judge has.

    Attributes:
        calibrated: Whether thresholds mean anything for it; if not, it gives no pass or fail.
        thresholds: Thresholds that hold for this judge, by metric name.
    """

    kind: str
    name: Word | None = None
    calibrated: bool = True
    thresholds: dict[str, float] | None = None


class EmbedderConfig(Strict):
    """Keys that every embedder has; calibrated and thresholds as for a judge, since its similarities are scores."""

    kind: str
    name: Word | None = None
    calibrated: bool = True
    thresholds: dict[str, float] | None = None


class TargetConfig(Strict):
    """Keys that every target has."""

    kind: str
    name: Word | None = None

    @property
    def runs_here(self) -> bool:
        """Whether it is a program that is run on this machine."""
        return False

    @property
    def calls(self) -> str | None:
        """What is called for an answer, as `check` shows it; None: nothing."""
        return None

    @property
    def may_fill(self) -> frozenset[str]:
        """Case fields that its replies may bring beside the one that the dataset generates."""
        return frozenset()


class DatasetConfig(Strict):
    """Where cases come from.

    Attributes:
        name: The column value; null: the key it stands under.
        path: A file or a glob.
        format: null: by the file's ending.
        fields: Case field to column or JSONPath, or to several of them by the names that they get in the field.
        group: The column whose value is the cluster for error bars.
        generates: The case field that a live target's reply fills.
        labels_of: The column, or JSONPath, whose text the labels in the data judge: with another one in the field that
            `generates` names, they are of no answer and are left out. null: whatever is recorded there.
        conversation: Whether the whole file is one conversation.
        tags: Only cases with one of these tags, or one below it, are run; null: all.
        allow_irregular: Whether turns may come in any order: two of the assistant in a row, or one at the end.
    """

    name: Word | None = None
    path: str
    description: str | None = None
    format: Literal["jsonl", "json", "csv", "parquet"] | None = None
    fields: dict[str, str | dict[str, str]] | None = None
    group: str | None = None
    generates: Literal["answer", "actual"] = "answer"
    labels_of: str | None = None
    conversation: bool = False
    tags: list[str] | None = Field(default=None, min_length=1)
    allow_irregular: bool = False


class NotWorse(Strict):
    """A gate against the baseline: how much worse than it is still acceptable."""

    not_worse_by: float = Field(ge=0)


def _gate_value(value: Any) -> Any:
    """One message where a union would have one for each of its members."""
    if isinstance(value, bool | str | NotWorse):
        return value
    if isinstance(value, int | float):
        return float(value)
    known = cast("dict[Any, Any]", value) if isinstance(value, dict) else {}
    margin = known.get("not_worse_by") if len(known) == 1 else None
    if isinstance(margin, bool) or not isinstance(margin, int | float) or not margin >= 0:
        raise ValueError('write a condition such as ">= 0.8", or {not_worse_by: 0.02}')
    return NotWorse(not_worse_by=margin)


GateValue = Annotated[bool | float | str | NotWorse, BeforeValidator(_gate_value)]
"""A gate's value under a statistic: a condition, or how it compares with the baseline; under `point` true or false;
under `max_undefined_rate` a share."""


class MetricConfig(Strict):
    """Keys that all metric kinds share.

    Attributes:
        kind: How the score is made.
        name: The column value; null: the key it stands under.
        datasets: The datasets whose cases it scores, by name; null: all of the run.
        family: Where `list metric` shows it.
        description: What the score means, in one sentence.
        direction: Which end of the scale is the good one.
        version: Raise it when a change makes old and new scores incomparable.
        needs: Case fields without which a case is skipped.
        threshold: Where `passed` begins (inclusive); decides no exit code.
        judge: Part of a judge's configuration that this metric overrides.
        gate: Conditions on its summary rows, by statistic: {mean: ">= 0.8"}.
    """

    kind: str
    name: Word | None = None
    datasets: list[Word] | None = None
    family: str | None = None
    version: int = Field(default=1, ge=1)
    description: str = ""
    needs: list[str] = []
    direction: Direction = "higher_is_better"
    threshold: float | None = None
    judge: dict[str, Any] | None = None
    gate: dict[str, GateValue] | None = None

    def covers(self, dataset: str) -> bool:
        """Whether cases of this dataset are scored."""
        return self.datasets is None or dataset in self.datasets

    @field_validator("needs")
    @classmethod
    def _known_fields(cls, needs: list[str]) -> list[str]:
        unknown = [need for need in needs if need.split(".")[0] not in FIELDS]
        if unknown:
            raise ValueError(f"unknown case field {unknown[0]!r}; known: {', '.join(FIELDS)}")
        return needs


class Repeats(Strict):
    """How often: `target` repeats show generator noise, `judge` repeats judge noise."""

    target: int = Field(default=1, ge=1)
    judge: int = Field(default=1, ge=1)


class CacheConfig(Strict):
    """What was asked before and need not be paid for again.

    Attributes:
        mode: on; read (what it stores serves to resume this run and no other); refresh (reads nothing that is older
            than the run); off (both).
        path: The file; it may be shared by any number of runs.
        max_bytes: What the file may take; the least recently used replies go first.
    """

    mode: Annotated[Literal["on", "off", "read", "refresh"], BeforeValidator(_unquoted_word)] = "on"
    path: str = Field(default=".evalflow/cache.db", min_length=1)
    max_bytes: int = Field(default=1024**3, ge=1024**2)


class BudgetConfig(Strict):
    """What a run may spend, or all runs of a sweep together; null: without limit.

    Attributes:
        usd: US dollars.
        requests: Requests, tries that failed included.
        tokens: Of prompts and replies together.
        allow_unpriced: Whether models without a price may be asked under a limit in dollars, where they count as free.
    """

    usd: float | None = Field(default=None, ge=0)
    requests: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    allow_unpriced: bool = False


class RunConfig(Strict):
    """One run: dataset x target x metric x judge. The parts with a `kind` hold the model of theirs."""

    dataset: dict[str, DatasetConfig]
    target: TargetConfig
    metric: dict[str, MetricConfig]
    judge: JudgeConfig
    embedder: EmbedderConfig
    generate: Literal[False, True, "missing", "demo"] = False
    repeats: Repeats = Repeats()
    limit: int | None = Field(default=None, ge=1, le=MANY)
    sample: int | None = Field(default=None, ge=1, le=MANY)
    seed: int = Field(default=0, ge=-(2**63), lt=2**63)
    cache: CacheConfig = CacheConfig()
    budget: BudgetConfig = BudgetConfig()
    gate: dict[str, dict[str, GateValue]] | None = None
    baseline: str | None = None
    case_timeout_s: float | None = Field(default=3600, gt=0)
    max_error_rate: float = Field(default=0.0, ge=0, le=1)
