"""Shared parts of importers: validation of other tools' files, and config groups written as YAML for Hydra."""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import TextIO, TypeVar

from pydantic import BaseModel, ValidationError

from evalflow.addons.interop.importers.ledger import Ledger
from evalflow.addons.interop.importers.same_cases import SameCases
from evalflow.config.yaml_text import escaped, option_text
from evalflow.datasets.halves import Halves
from evalflow.datasets.rows import ReadingNotes
from evalflow.errors import Problem, UserError
from evalflow.values.jsonvalues import as_list, as_map

Model = TypeVar("Model", bound=BaseModel)


Options = dict[str, dict[str, object]]
"""The content of a group's files, by key."""
_QUESTIONS = ("question", "query", "input", "user_input", "message", "user_message", "prompt", "text", "topic")


@dataclass(frozen=True, slots=True)
class Secret:
    """A value read from an environment variable when needed, with the text before and after it."""

    variable: str
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        return f"{escaped(self.before)}${{oc.env:{self.variable}}}{escaped(self.after)}"


@dataclass(slots=True)
class DataFile:
    """Writes rows as JSON lines and counts them."""

    _file: TextIO
    ledger: Ledger
    part: str
    count: int = 0

    def write(self, row: Mapping[str, object], where: str) -> None:
        """Write the row that was read at `where`; half characters in it are mended and listed."""
        halves = Halves()
        self._file.write(halves.text(json.dumps(row, ensure_ascii=False, allow_nan=False)) + "\n")
        self.ledger.leave_reading(ReadingNotes(halves=halves.count), where)
        self.count += 1
        self.ledger.took(self.part)


@dataclass(slots=True)
class ImportedExperiment:
    """An experiment: its choices of other groups, and its own keys.

    Attributes:
        target, judge: The imported target and judge that it chooses; empty: the run's.
        generate: As in the configuration.
        more: Its further keys, such as `repeats`.
    """

    dataset: str | Sequence[str]
    metrics: Sequence[str]
    generate: bool | str
    target: str = ""
    judge: str = ""
    more: dict[str, object] = field(default_factory=dict[str, object])

    def option(self) -> dict[str, object]:
        """Its YAML."""
        dataset = self.dataset if isinstance(self.dataset, str) else list(self.dataset)
        chosen = {"dataset": dataset, "metric": list(self.metrics), "target": self.target, "judge": self.judge}
        defaults = [{f"override /{group}": choice} for group, choice in chosen.items() if choice]
        return {"defaults": defaults, "generate": self.generate, **self.more}


@dataclass(slots=True)
class ImportedConfig:
    """Other tools' definitions, converted to evalflow's config groups, by key.

    Attributes:
        datasets, metrics, targets, judges, experiments: The content of each file in conf/.
        prompts: The text of each file in prompts/, by its path there.
        data: Finished files, by their names in data/.
        notes: What changed.
        ledger: Counts of what was found, taken and left out.
        unjudged: The experiments that need no language model as judge, or name one.
        has_one_system: Whether it has one system's recorded results, which can be compared with other systems'.
    """

    datasets: Options = field(default_factory=Options)
    metrics: Options = field(default_factory=Options)
    targets: Options = field(default_factory=Options)
    judges: Options = field(default_factory=Options)
    experiments: dict[str, ImportedExperiment] = field(default_factory=dict[str, ImportedExperiment])
    prompts: dict[str, str] = field(default_factory=dict[str, str])
    data: dict[str, Path] = field(default_factory=dict[str, Path])
    notes: list[str] = field(default_factory=list[str])
    ledger: Ledger = field(default_factory=Ledger)
    unjudged: set[str] = field(default_factory=set[str])
    has_one_system: bool = False

    @property
    def has_answers(self) -> bool:
        return all("answer" in as_map(table.get("fields")) for table in self.datasets.values())

    def files(self) -> dict[str, str]:
        groups = {
            "dataset": self.datasets,
            "metric": self.metrics,
            "target": self.targets,
            "judge": self.judges,
            "experiment": {key: experiment.option() for key, experiment in self.experiments.items()},
        }
        return {
            f"{group}/{key}.yaml": option_text(group, key, {name: _revealed(value) for name, value in values.items()})
            for group, options in groups.items()
            for key, values in options.items()
        }


@dataclass(frozen=True, slots=True)
class ImportSource:
    """One import: the file, the name of the result, and the place of rows until everything is validated.

    Attributes:
        path: The file to import.
        name: The key of the datasets and experiments that are written.
        scratch: A temporary folder on the same disk as data/.
        root: The folder that links must not leave; null: the file's.
        is_named: Whether the user chose the name; else it is the file's.
        same: The dataset whose cases the file answers by another system; None: the file has new cases.
    """

    path: Path
    name: str
    scratch: Path
    root: Path | None = None
    is_named: bool = False
    same: SameCases | None = None

    def file(self, *names: str, hint: str = "", lacking: str = "it is a folder: name one file") -> Path:
        """The file to import: the path, or the first of these names in the folder that it is.

        If there is none, it is a UserError: `lacking` is its message if the path is a folder.
        """
        path = self.path
        if path.is_dir():
            path = next((path / name for name in names if (path / name).is_file()), path)
        if not path.is_file():
            raise UserError(Problem(lacking if path.is_dir() else "there is no such file", str(self.path), hint))
        return path

    @contextmanager
    def database(self) -> Generator[sqlite3.Connection]:
        """A temporary database, to join rows of files of any size."""
        database = sqlite3.connect(self.scratch / "rows.db")
        try:
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            yield database
        except sqlite3.Error as error:
            raise UserError(Problem(f"the rows cannot be sorted on disk: {error}", str(self.scratch.parent))) from None
        finally:
            database.close()

    @contextmanager
    def rows(self, imported: ImportedConfig, key: str, part: str = "cases") -> Generator[DataFile]:
        """A new file data/KEY.jsonl, complete when the block ends. Its rows are counted as taken, under `part`."""
        path = self.scratch / f"{key}.jsonl"
        with path.open("x", encoding="utf-8") as file:
            yield DataFile(file, imported.ledger, part)
        imported.data[f"{key}.jsonl"] = path


def dataset_option(key: str, description: str, **changes: object) -> dict[str, object]:
    """The YAML of a dataset in data/KEY.jsonl whose columns are case fields."""
    return {"description": description, "path": f"data/{key}.jsonl", "format": "jsonl", "group": None, **changes}


def judged_by(imported: ImportedConfig, key: str, choice: str, values: Mapping[str, object]) -> None:
    """Write a judge as a separate file and choose it in all experiments.

    `choice` is the judge that it extends. Choosing another judge then keeps none of its keys.
    """
    imported.judges[key] = {"defaults": [choice, "_self_"], **values}
    for experiment in imported.experiments.values():
        experiment.judge = key
    imported.unjudged |= set(imported.experiments)


def generate_for(answered: int, total: int) -> bool | str:
    """The experiment's `generate`, if `answered` of `total` cases have answers."""
    return False if answered == total else "missing" if answered else True


def metric_option(
    kind: str, family: str, description: str, needs: Sequence[str] = (), threshold: float | None = None, **own: object
) -> dict[str, object]:
    """The YAML of a metric; `own` are the keys of the metric's kind."""
    return {
        "kind": kind,
        "family": family,
        "version": 1,
        "description": description,
        "needs": list(needs),
        **own,
        "direction": "higher_is_better",
        "threshold": threshold,
        "judge": None,
        "gate": None,
    }


def recorded_option(
    field: str, description: str, scale: str = "number", threshold: float | None = None
) -> dict[str, object]:
    """The YAML of a metric that reads the other tool's own score from the data."""
    return metric_option("recorded", "recorded", description, threshold=threshold, field=field, scale={"type": scale})


def validated(model: type[Model], value: object, path: Path) -> Model:
    """Validate the content of a file; UserError lists every problem, by its key."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems: list[Problem] = []
        for fault in error.errors():
            key = ".".join(str(part) for part in fault["loc"])
            is_no_object = fault["type"] == "model_type"
            what = "must be an object with keys" if is_no_object else fault["msg"].removeprefix("Value error, ")
            problems.append(Problem(f"{key}: {what}" if key else what, str(path)))
        raise UserError(problems) from None


def first_file(name: str, folders: Iterable[Path]) -> Path | None:
    """The file of that name in the first folder that contains it."""
    return next((path.resolve() for folder in folders if (path := folder / name).is_file()), None)


def key_for(name: str, taken: Collection[str], fallback: str) -> str:
    """Derive a config key that is not in `taken` from a name: lower-case letters, digits and _, a letter first."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[:60]
    key = slug if slug[:1].isalpha() else f"{fallback}_{slug}".rstrip("_")
    candidates = chain([key], (f"{key}_{number}" for number in count(2)))
    return next(candidate for candidate in candidates if candidate not in taken)


def own_or_number(own: object, number: int, taken: set[str]) -> str:
    """A case's own id, as text, if no other case has it; else its number. The id is added to those that are taken."""
    case_id = str(own) if isinstance(own, str | int) and own != "" and str(own) not in taken else str(number)
    while case_id in taken:
        case_id = f"{case_id}#{number}"
    taken.add(case_id)
    return case_id


def as_json(value: object) -> str:
    """The text itself; JSON of anything else."""
    return value if isinstance(value, str) else output_text(value)


def output_text(value: object) -> str:
    """An answer as text; JSON if it is not text, as other tools compare it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def question_of(variables: Mapping[str, object], prompt: str) -> str:
    """The variable `question`, else the only text among the variables, else the filled prompt, else all texts."""
    texts = {name: value for name, value in variables.items() if isinstance(value, str) and value.strip()}
    named = next((texts[name] for name in _QUESTIONS if name in texts), None)
    if named is not None:
        return named
    return next(iter(texts.values())) if len(texts) == 1 else prompt or " ".join(texts.values())


def secrets_in(value: object) -> Iterator[Secret]:
    """All `Secret`s in a value of an option."""
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, Mapping):
        for inner in as_map(value).values():
            yield from secrets_in(inner)
    else:
        for inner in as_list(value):
            yield from secrets_in(inner)


def _revealed(value: object) -> object:
    """The value with secrets as interpolations; must come after `escaped`."""
    if isinstance(value, Mapping):
        return {key: _revealed(inner) for key, inner in as_map(value).items()}
    if isinstance(value, list):
        return [_revealed(inner) for inner in as_list(value)]
    return str(value) if isinstance(value, Secret) else value
