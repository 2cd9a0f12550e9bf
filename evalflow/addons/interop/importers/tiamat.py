"""Import of Tiamat's datasets, metrics and tests: JSON files that refer to each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from evalflow import datasets
from evalflow.addons.interop.importers.columns import is_missing
from evalflow.addons.interop.importers.files import (
    ImportedConfig,
    ImportedExperiment,
    Model,
    first_file,
    key_for,
    metric_option,
    validated,
)
from evalflow.addons.interop.importers.ledger import Ledger
from evalflow.config.schema import DatasetConfig
from evalflow.datasets.sources import parse_json
from evalflow.errors import Problem, UserError, nearest
from evalflow.values.jsonvalues import as_map

_ANSWER = "actual_output"  # the column of recorded answers; rows with it need no target
_WHOLE = " (as one conversation)"


class _TiamatModel(BaseModel):
    """Keeps unknown keys to list them; refuses keys that look like misspelled known ones."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    def unknown(self, path: str = "") -> Iterator[str]:
        """The unknown keys with a value, including those of nested objects."""
        for name, value in self:
            if isinstance(value, _TiamatModel):
                yield from value.unknown(f"{path}{name}.")
            elif name in (self.model_extra or {}) and not is_missing(value):
                yield f"{path}{name}"

    @model_validator(mode="before")
    @classmethod
    def _nothing_misspelt(cls, values: object) -> object:
        if isinstance(values, dict):
            for key in map(str, values):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
                meant = key not in cls.model_fields and nearest(key, cls.model_fields)
                if meant and meant not in values:
                    raise ValueError(f"unknown key {key!r}; did you mean {meant!r}?")
        return values  # pyright: ignore[reportUnknownVariableType]


class _Scale(_TiamatModel):
    type: Literal["scale"]
    description: str = ""
    min: int
    max: int

    @model_validator(mode="after")
    def _ordered(self) -> _Scale:
        if self.min >= self.max:
            raise ValueError(f"min must be below max, but min is {self.min} and max is {self.max}")
        return self


class _Simple(_TiamatModel):
    type: Literal["boolean", "percentage"]
    description: str = ""


def _plain_type(score: object) -> object:
    """The score with its type in small letters, since the tool takes "Scale" too."""
    scale = as_map(score)
    kind = scale.get("type")
    return {**scale, "type": kind.lower()} if isinstance(kind, str) else score


class _MetricFlags(_TiamatModel):
    needs_history: bool = False
    needs_example_output: bool = False


class _TiamatMetric(_TiamatModel):
    name: str = Field(min_length=1)
    config: _MetricFlags = _MetricFlags()
    metric_description: str = Field(min_length=1)
    score: Annotated[_Scale | _Simple, Field(discriminator="type"), BeforeValidator(_plain_type)] = _Simple(
        type="percentage"
    )

    def declared(self, covered: list[str] | None) -> dict[str, object]:
        """The metric's YAML. The rubric's prompt contains the description unchanged, and the fields in `needs`."""
        history, examples = self.config.needs_history, self.config.needs_example_output
        needs = ["messages" if history else "question", "answer"]
        if examples:
            needs.append("vars.outputs" if history else "reference")
        described = [self.metric_description, self.score.description]
        scale: dict[str, object] = {"type": self.score.type}
        if isinstance(self.score, _Scale):
            scale = {"type": "likert", "min": self.score.min, "max": self.score.max}
        about = "\n\n".join(text for text in described if text)
        return metric_option("rubric", "tiamat", about, needs, name=self.name, datasets=covered, scale=scale)


class _DatasetFlags(_TiamatModel):
    example_outputs: bool = False


class _Dataset(_TiamatModel):
    name: str = Field(min_length=1)
    config: _DatasetFlags = _DatasetFlags()
    data: list[object]


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


class _Test(_TiamatModel):
    datasets: Annotated[list[str], BeforeValidator(_as_list)] = Field(min_length=1)
    metrics: Annotated[list[str], BeforeValidator(_as_list)] = Field(min_length=1)


def read_test(path: Path, name: str | None = None) -> ImportedConfig:
    """Convert a test file, with its datasets and metrics; UserError lists every problem of all files.

    With a `name` all keys begin with it, and an experiment of that name runs everything.

    A metric that needs the history scores each dataset as one conversation. If the test also has other metrics, the
    dataset is imported in both forms, and each metric uses its own. Relative paths in the file are resolved in the
    working directory first, then in the file's own folder.
    """
    problems: list[Problem] = []
    test = _read(path, _Test, problems)
    if test is None:
        raise UserError(problems)
    tables = _all(test.datasets, path, _Dataset, "dataset", problems)
    metrics = _all(test.metrics, path, _TiamatMetric, "metric", problems)
    problems += _without_examples(tables, metrics)
    if problems:
        raise UserError(problems)
    forms = _forms(tables, [metric.config.needs_history for metric in metrics.values()])
    imported = ImportedConfig(ledger=Ledger(("datasets", "metrics")))
    for file, part in {path: test, **tables, **metrics}.items():
        for key in part.unknown():
            imported.ledger.leave("settings", key, str(file), "evalflow has no field for it")
    imported.ledger.take("datasets", len(tables))
    imported.ledger.take("metrics", len(metrics))
    prefix = f"{name} " if name else ""
    for table, whole, form in forms:
        key = key_for(f"{prefix}{form}", imported.datasets, "dataset")
        imported.datasets[key] = _table(table, form, whole=whole)
    mixed = len({whole for _, whole, _ in forms}) > 1
    for metric in metrics.values():
        covered = [form for _, whole, form in forms if whole == metric.config.needs_history] if mixed else None
        imported.metrics[key_for(f"{prefix}{metric.name}", imported.metrics, "metric")] = metric.declared(covered)
    if name:
        imported.experiments[name] = ImportedExperiment(
            [*imported.datasets], [*imported.metrics], not imported.has_answers
        )
    return imported


def _forms(tables: Mapping[Path, _Dataset], histories: list[bool]) -> list[tuple[Path, bool, str]]:
    """Each dataset's file, whether it is read as one conversation, and its name."""
    alone = len(set(histories)) == 1
    return [
        (path, whole, table.name + ("" if alone or not whole else _WHOLE))
        for path, table in tables.items()
        for whole in (False, True)
        if whole in histories
    ]


def _table(path: Path, name: str, *, whole: bool) -> dict[str, object]:
    answered = _ANSWER in datasets.columns(DatasetConfig(path=str(path), format="json"))
    return {
        "name": name,
        "path": str(path),
        "format": "json",
        "fields": {"answer": _ANSWER} if answered else None,
        "group": None,
        "generates": "answer",
        "conversation": whole,
    }


def _without_examples(tables: Mapping[Path, _Dataset], metrics: Mapping[Path, _TiamatMetric]) -> list[Problem]:
    return [
        Problem(
            f"{metric.name} needs example outputs, and {table.name} has none (config.example_outputs is not true)",
            str(path),
            f"give every row of {source} an output and set example_outputs, or leave the metric out of the test",
        )
        for path, metric in metrics.items()
        if metric.config.needs_example_output
        for source, table in tables.items()
        if not table.config.example_outputs
    ]


def _all(names: list[str], test: Path, model: type[Model], what: str, problems: list[Problem]) -> dict[Path, Model]:
    """Read the files that a test refers to, each once. Two with the same name are a problem."""
    parts: dict[Path, Model] = {}
    by_name: dict[str, Path] = {}
    for name in names:
        path = first_file(name, (Path.cwd(), test.resolve().parent))
        if path is None:
            where = f"neither in {Path.cwd()} nor in {test.resolve().parent}"
            problems.append(Problem(f"there is no {what} file {name}: {where}", str(test)))
            continue
        if path in parts:
            problems.append(Problem(f"the {what} file {name} is listed twice", str(test), "list it once"))
            continue
        part = _read(path, model, problems)
        if part is not None:
            parts[path] = part
            own = str(getattr(part, "name", ""))
            if by_name.setdefault(own, path) != path:
                hint = f"{by_name[own]} has the same name: rename one, so that their scores stay separate"
                problems.append(Problem(f"two {what}s are called {own!r}", str(path), hint))
    return parts


def _read(path: Path, model: type[Model], problems: list[Problem]) -> Model | None:
    try:
        value = parse_json(path.read_bytes().removeprefix(b"\xef\xbb\xbf"), str(path))
    except OSError as error:
        problems.append(Problem(f"cannot be read: {error.strerror}", str(path)))
        return None
    if isinstance(value, Problem):
        problems.append(value)
        return None
    try:
        return validated(model, value, path)
    except UserError as error:
        problems += error.problems
        return None
