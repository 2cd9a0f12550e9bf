"""The typed configuration. Hydra composes it; these models validate it and refuse unknown keys."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from evalflow.config.extraction import Extraction
from evalflow.config.strict import Strict, Word, matching, unquoted_word
from evalflow.config.surroundings import (
    A_FOLDER,
    BatchConfig,
    EngineConfig,
    LocalEngineConfig,
    ObserverConfig,
    OtelConfig,
)
from evalflow.records import Direction
from evalflow.values.cells import CELL_TYPES, CellType
from evalflow.values.jsonvalues import is_object

IDENTIFIER = re.compile(r"[a-z][a-z0-9_]*\Z")
Format = Literal["jsonl", "json", "csv", "parquet", "xlsx"]
ENDINGS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
}
"""The formats of data, by the endings of files."""
MANY = 10**15  # an upper limit for counts: above any real number of cases, below the largest machine integer
FIELDS = (
    "question",
    "history",
    "messages",
    "answer",
    "reference",
    "contexts",
    "turn_contexts",
    "expected",
    "actual",
    "metadata",
    "demo_answer",
    "vars",
    "latency_s",
    "cost_usd",
    "scenario",
    "persona",
    "goal",
    "facts",
    "brief",
    "finish_reason",
    "thoughts",
    "full_answer",
)
"""The fields that `needs` and templates may name."""
DERIVED = MappingProxyType({"brief": "scenario", "turn_contexts": "contexts"})
"""Fields that cannot be mapped to a column, with the field to map instead."""


def with_examples(*examples: Mapping[str, Any], **config: Any) -> ConfigDict:
    """Return the configuration of a model with examples in its JSON Schema and in `show`."""
    return ConfigDict(json_schema_extra={"examples": [dict(example) for example in examples]}, **config)


def _http_address(url: str, info: ValidationInfo) -> str:
    if not re.fullmatch(r"https?://[^\s/]+\S*", url):
        raise ValueError(f"{info.field_name} must start with http:// or https://")
    _ = urlsplit(url).port  # raises ValueError for an invalid port or IPv6 address
    return url


HttpAddress = Annotated[str, AfterValidator(_http_address)]


class ScorerConfig(Strict):
    """Keys of judges and embedders.

    Attributes:
        calibrated: Whether thresholds apply to its scores; if not, there is no pass or fail.
        thresholds: Thresholds for this judge or embedder, by metric name.
    """

    kind: str
    name: Word | None = None
    calibrated: bool = True
    thresholds: dict[str, float] | None = None


class JudgeConfig(ScorerConfig):
    """Keys that every judge has.

    Attributes:
        title: The displayed name, in any script; null: its name.

    Example:
        >>> JudgeConfig(kind="house", thresholds={"tone": 0.7}).calibrated
        True
    """

    title: str | None = None


class EmbedderConfig(ScorerConfig):
    """Keys that every embedder has; its similarities are scores too.

    Example:
        >>> EmbedderConfig(kind="house").calibrated
        True
    """


class TargetConfig(Strict):
    """Keys that every target has. The last two decide which part of its answers, including recorded ones, is scored.

    Attributes:
        title: The displayed name, in any script; null: its name.
        thoughts: drop: a block of thoughts at the beginning of an answer is cut off and stored separately; keep: the
            answer stays whole.
        extract: The part of the answer that is scored; null: all of it.

    Example:
        >>> TargetConfig(kind="echo").thoughts
        'drop'
    """

    runs_here: ClassVar[bool] = False  # whether it runs a program on this machine
    kind: str
    name: Word | None = None
    title: str | None = None
    thoughts: Literal["drop", "keep"] = "drop"
    extract: Extraction | None = None

    @property
    def calls(self) -> str | None:
        """What is called for an answer, as shown by `check`; None: nothing."""
        return None

    @property
    def may_fill(self) -> frozenset[str]:
        """Case fields that its replies may set besides the dataset's `generates` field."""
        return frozenset()


class BaseSimulatorConfig(Strict):
    """Keys that every simulator has, `none` included."""

    kind: str
    name: Word | None = None

    @property
    def turns(self) -> int:
        """Maximum number of the target's answers in one conversation; 0: no user is simulated."""
        raise NotImplementedError


class NoSimulatorConfig(BaseSimulatorConfig):
    """No simulated user: the cases contain all of the user's turns."""

    kind: Literal["none"] = "none"  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def turns(self) -> int:
        return 0


class FieldSource(Strict):
    """The column of a field, and the type of its values.

    Attributes:
        column: The column or a JSONPath; null: the column with the field's name.
        type: The type of the values: text, number, boolean, list (JSON, Python's, or separated by | or ;) or json.
            null: text in CSV and Excel; in JSON, Parquet and frames their own type.
    """

    model_config = with_examples({"column": "Score", "type": "number"}, {"type": "list"})
    column: str | None = None
    type: CellType | None = None


def _field_source(value: object) -> object:
    """Distinguish a column with its type from a map of several columns by their names in the field.

    A map with `column`, `type` or both is one column, unless `type` is alone and is not the name of a type.
    """
    given = value if is_object(value) else {}
    several = bool(given.keys() - {"column", "type"}) or (given.keys() == {"type"} and given["type"] not in CELL_TYPES)
    return {part: _one_source(one) for part, one in given.items()} if several else _one_source(value)


def _one_source(value: object) -> object:
    if value is None or isinstance(value, str | FieldSource):
        return value
    if not is_object(value) or not value:
        raise ValueError("write a column's name, a JSONPath, {column: NAME, type: number}, or a map of these")
    given = value
    if unknown := sorted(map(str, given.keys() - {"column", "type"})):
        raise ValueError(f"unknown key {unknown[0]}; write a column's name, or {{column: NAME, type: number}}")
    column, wanted = given.get("column"), given.get("type")
    if wanted is not None and wanted not in CELL_TYPES:
        hint = f"for a part named `type` from the column {wanted} write {{type: {{column: {wanted}}}}}"
        raise ValueError(f"unknown type {wanted!r}; known: {', '.join(CELL_TYPES)}; {hint}")
    if column is not None and not (isinstance(column, str) and column.strip()):
        raise ValueError(f"`column` is {column!r}; expected the name of a column or a JSONPath")
    return FieldSource(column=column, type=wanted)


FieldValue = Annotated[str | FieldSource | dict[str, str | FieldSource] | None, BeforeValidator(_field_source)]
"""A column or a JSONPath, with or without its type; or several of them by their names in the field. null: none."""


def _how_joined(value: object) -> object:
    """Give a single error message; a union would give one for each of its types."""
    if not isinstance(value, bool) and value != "turns":
        raise ValueError(f"must be true, false or turns, not {value!r}")
    return value


class DatasetConfig(Strict):
    """The files of a dataset, and how to read them.

    Attributes:
        name: The dataset's name in results; null: its key in the configuration.
        title: The displayed name, in any script; null: its name.
        path: A file or a glob.
        format: The file format; null: by the file extension.
        sheet: The sheet of an Excel workbook; null: its only visible one with rows.
        fields: Maps a case field to a column or JSONPath, to {column, type}, or to several of them by their names in
            the field. With {column, type}, a name that is not a case field's becomes vars.NAME. null: the field has no
            column.
        group: The column whose value is the case's cluster for error bars.
        generates: The case field filled by a live target's reply.
        labels_of: The column or JSONPath with the text that the labels in the data refer to. Labels are ignored if this
            text differs from the field named by `generates`. null: labels refer to the recorded text.
        conversation: true: each file is one conversation and one case; turns: each row is a case, with the rows before
            it as its history; false: rows are independent.
        tags: Run only cases with one of these tags or their sub-tags; null: all.
        every_tag: Whether a case must have all of `tags`, not just one.
        ids: Run only the cases with these ids; null: all.
        allow_irregular: Whether turns may be in any order: two assistant turns in a row, or one at the end.
    """

    name: Word | None = None
    title: str | None = None
    path: str
    description: str | None = None
    format: Format | None = None
    sheet: str | None = None
    fields: dict[str, FieldValue] | None = None
    group: str | None = None
    generates: Literal["answer", "actual"] = "answer"
    labels_of: str | None = None
    conversation: Annotated[bool | Literal["turns"], BeforeValidator(_how_joined)] = False
    tags: list[str] | None = Field(default=None, min_length=1)
    every_tag: bool = False
    ids: list[str] | None = Field(default=None, min_length=1)
    allow_irregular: bool = False


class NotWorse(Strict):
    """A gate against the baseline: the largest acceptable decline."""

    not_worse_by: float = Field(ge=0)


def _gate_value(value: object) -> object:
    """Give a single error message; a union would give one for each of its types."""
    if isinstance(value, bool | str | NotWorse):
        return value
    if isinstance(value, int | float):
        return float(value)
    known = value if is_object(value) else {}
    margin = known.get("not_worse_by") if len(known) == 1 else None
    if isinstance(margin, bool) or not isinstance(margin, int | float) or not margin >= 0:
        raise ValueError('write a condition such as ">= 0.8", or {not_worse_by: 0.02}')
    return NotWorse(not_worse_by=margin)


GateValue = Annotated[bool | float | str | NotWorse, BeforeValidator(_gate_value)]
"""The value of a gate under a statistic: a condition, or a comparison with the baseline. Under `point`: true or false;
under `max_undefined_rate`: a fraction; under `looks`: anytime, or the number of planned looks."""


Fault = Literal["number", "name", "negation", "addition", "omission", "other_answer"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
"""The faults that `prove` injects into answers."""


class MetricConfig(Strict):
    """Keys that all metric kinds share.

    Attributes:
        kind: The kind of metric.
        name: The metric's name in results; null: its key in the configuration.
        title: The name displayed in reports, in any script; null: its name.
        datasets: The names of the datasets whose cases it scores; null: all of the run.
        family: The section of `list metric` that shows it.
        description: What the score means, in one sentence.
        direction: Which end of the scale is good.
        version: Raise it when a change makes old and new scores incomparable.
        needs: Required case fields; a case that lacks one is skipped.
        threshold: The lowest passing score (the highest, if lower is better); does not affect the exit code.
        judge: Part of a judge's configuration that this metric overrides.
        gate: Conditions on its summary rows, by statistic: {mean: ">= 0.8"}.
        test_order: The order in which a comparison tests its mean and its pass rate; the second is tested only if the
            first is significant, and neither is adjusted for the other. null: both are adjusted.
        faults: Faults that must worsen its score when `prove` injects them into good answers; all others must leave it
            unchanged. null: `prove` cannot test it.
        fixture: A file, in data/ or beside conf/, of cases with scores by people, which `prove` compares with the
            judge's. null: none.

    Example:
        >>> MetricConfig(kind="short", needs=["answer"]).direction
        'higher_is_better'
    """

    kind: str
    name: Word | None = None
    title: str | None = None
    datasets: list[Word] | None = None
    family: str | None = None
    version: int = Field(default=1, ge=1)
    description: str = ""
    needs: list[str] = Field(default=[])
    direction: Direction = "higher_is_better"
    threshold: float | None = None
    judge: dict[str, Any] | None = None
    gate: dict[str, GateValue] | None = None
    test_order: tuple[Literal["mean", "pass_rate"], Literal["mean", "pass_rate"]] | None = None
    faults: list[Fault] | None = None
    fixture: str | None = Field(default=None, min_length=1)

    def covers(self, dataset: str) -> bool:
        return self.datasets is None or dataset in self.datasets

    @property
    def programs(self) -> Sequence[Sequence[str]]:
        """The programs that it may start on this machine, each with its arguments; for Python code, the callable."""
        return ()

    @property
    def programs_key(self) -> str:
        """The configuration key of its programs."""
        return "commands"

    @property
    def files(self) -> Sequence[str]:
        """The files in the working directory or its data/ that it reads before the first case."""
        return ()

    def without_programs(self) -> Self:
        """Return this metric without its programs; their scores are skipped."""
        return self

    @field_validator("test_order")
    @classmethod
    def _two_statistics(cls, order: tuple[str, str] | None) -> tuple[str, str] | None:
        if order is not None and order[0] == order[1]:
            raise ValueError("test_order names mean and pass_rate, each once")
        return order

    @field_validator("needs")
    @classmethod
    def _known_fields(cls, needs: list[str]) -> list[str]:
        unknown = [need for need in needs if need.split(".")[0] not in FIELDS]
        if unknown:
            raise ValueError(f"unknown case field {unknown[0]!r}; known: {', '.join(FIELDS)}")
        return needs


class Repeats(Strict):
    """Number of repeats: `target` repeats measure generator noise, `judge` repeats measure judge noise.

    `pass_share` is the fraction of its repeats that a case must pass for the statistic `repeat_pass_share`.
    """

    target: int = Field(default=1, ge=1)
    judge: int = Field(default=1, ge=1)
    pass_share: float = Field(default=0.5, gt=0, le=1)


_A_DATABASE = matching(
    r"postgres(ql)?://(?:[^:/?#@\s]*@)?[^@\s]*",
    "write postgresql://USER@HOST/NAME; a password belongs into PGPASSWORD or ~/.pgpass",
)


class CacheConfig(Strict):
    """The cache of replies, so that the same request is not paid for twice.

    Attributes:
        mode: on; read (store new replies only for resuming this run); refresh (ignore replies older than the run); off
            (both).
        path: The cache file; runs may share it.
        max_bytes: Maximum size of the file in bytes; the least recently used replies are removed first.
        url: A PostgreSQL database through which machines share replies, in addition to their files; null: none.
    """

    mode: Annotated[Literal["on", "off", "read", "refresh"], BeforeValidator(unquoted_word)] = "on"
    path: str = Field(default=".evalflow/cache.db", min_length=1)
    max_bytes: int = Field(default=1024**3, ge=1024**2)
    url: Annotated[str, _A_DATABASE] | None = None


class BudgetConfig(Strict):
    """Spending limits of a run, or of all runs of a sweep together; null: no limit.

    Attributes:
        usd: US dollars.
        requests: Number of requests, including failed attempts.
        tokens: Prompt and completion tokens together.
        allow_unpriced: Whether models without a price are allowed under a limit in dollars; their calls count as free.
    """

    usd: float | None = Field(default=None, ge=0)
    requests: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    allow_unpriced: bool = False


class RunConfig(Strict):
    """One run: dataset x target x metric x judge. Each part with a `kind` is validated by that kind's model.

    Attributes:
        dataset: The datasets by name, with their files.
        target: The system under test, if answers are generated.
        metric: The metrics, by name.
        judge: The judge that scores; metrics may override parts of it.
        embedder: The model that compares meanings.
        simulator: The model that plays the user in cases with a scenario.
        generate: false: score the answers in the data; true: ask the target; missing: ask it for cases without an
            answer; demo: score the example answers.
        repeats: How often each case is answered and each answer judged.
        limit: Maximum number of cases, the first of each dataset; null: all.
        sample: Number of random cases of each dataset, drawn with `seed`; null: all.
        seed: The seed of all random numbers.
        cache: The cache of replies.
        budget: The spending limits of the run.
        batch: How the run waits for batches.
        engine: Where the run works.
        gate: Conditions on the results by metric, which decide the exit code.
        baseline: The folder of an earlier run, for gates that compare with it.
        objective: The metric whose value a sweeper of Hydra optimises, such as Optuna's; null: none.
        case_timeout_s: Time limit in seconds for an answer and for each score, with all attempts; null, or with
            batches: no limit.
        max_error_rate: The fraction of scores in state error above which the run is inconclusive.
        stop: Whether the run ends once all gates, each with looks, are decided; null: all cases are run.
        otel: The receiver of the scores as OpenTelemetry log records.
        observers: Further receivers of each record, by name; installed packages provide the kinds.
        copy_to: An address in object storage to which the finished run's folder is copied.
    """

    dataset: dict[str, DatasetConfig]
    target: TargetConfig
    metric: dict[str, MetricConfig]
    judge: JudgeConfig
    embedder: EmbedderConfig
    simulator: BaseSimulatorConfig = NoSimulatorConfig()
    generate: Literal[False, True, "missing", "demo"] = False
    repeats: Repeats = Repeats()
    limit: int | None = Field(default=None, ge=1, le=MANY)
    sample: int | None = Field(default=None, ge=1, le=MANY)
    seed: int = Field(default=0, ge=-(2**63), lt=2**63)
    stop: Literal["when_decided"] | None = None
    cache: CacheConfig = CacheConfig()
    budget: BudgetConfig = BudgetConfig()
    batch: BatchConfig = BatchConfig()
    engine: EngineConfig = LocalEngineConfig()
    gate: dict[str, dict[str, GateValue]] | None = None
    baseline: str | None = None
    objective: str | None = None
    case_timeout_s: float | None = Field(default=3600, gt=0)
    max_error_rate: float = Field(default=0.0, ge=0, le=1)
    otel: OtelConfig = OtelConfig()
    observers: dict[str, ObserverConfig] = Field(default_factory=dict)
    copy_to: Annotated[str, A_FOLDER] | None = None
