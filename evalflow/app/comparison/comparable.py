"""Whether two runs can be compared: what of their metrics, judges and cases is not the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from evalflow.app.results.saved import read_cases, read_manifest
from evalflow.errors import Problem, UserError, command
from evalflow.records import FigureSpec
from evalflow.run.folder import RunFolder
from evalflow.summary import Traits

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["metric", "prompt", "judge", "cases"]
KINDS: tuple[Kind, ...] = ("metric", "prompt", "judge", "cases")
# What a metric's configuration may differ in while its scores mean the same.
_FREE = ("threshold", "gate", "description", "family", "judge", "steps_from")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why two runs cannot be compared as they are.

    Attributes:
        kind: What differs, and the word after `--allow` that lets it pass.
        what: In one sentence.
    """

    kind: Kind
    what: str


@dataclass(frozen=True, slots=True)
class Scored:
    """A run that has scores to compare."""

    name: str
    folder: RunFolder
    manifest: dict[str, Any]

    def scores(self) -> pl.LazyFrame:
        """The columns of scores.parquet."""
        import polars as pl

        return pl.scan_parquet(self.folder.scores)

    @property
    def traits(self) -> dict[str, Traits]:
        """What a comparison has to know of each metric."""
        return {
            name: Traits(
                _declared(self.manifest, name).get("direction") != "lower_is_better",
                facts["bounded"],
                FigureSpec(**facts["figures"]) if facts["figures"] else None,
            )
            for name, facts in self.manifest["metrics"].items()
        }


def open_scored(folder: RunFolder, name: str) -> Scored:
    """A run's manifest and scores.

    Raises:
        UserError: They are of another version, or the run ended before its tables were written.
    """
    manifest = read_manifest(folder)
    if not folder.scores.is_file():
        hint = f"write them: {command('report', folder.path)}"
        raise UserError(Problem("the run ended before its tables were written", str(folder.path), hint))
    return Scored(name, folder, manifest)


def obstacles(a: Scored, b: Scored) -> list[Obstacle]:
    """Everything that keeps the two from being compared, in the order of `KINDS`."""
    found = [*other_versions(_versions(a), _versions(b)), *_unlike(a, b)]
    changed = _changed_cases(a, b)
    if changed:
        names = ", ".join(changed[:_SHOWN]) + (", ..." if len(changed) > _SHOWN else "")
        what = f"{len(changed)} cases have another question, reference or expected value under the same id ({names})"
        found.append(Obstacle("cases", what))
    return sorted(found, key=lambda obstacle: KINDS.index(obstacle.kind))


def declared_obstacles(a: Scored, b: Scored) -> list[Obstacle]:
    """What of `obstacles` shows without a look at scores or cases: quick enough to be asked of many runs."""
    found = [*other_versions(_declared_versions(a), _declared_versions(b)), *_unlike(a, b)]
    return sorted(found, key=lambda obstacle: KINDS.index(obstacle.kind))


def refuse(found: Collection[Obstacle], allowed: Collection[str], where: str, allow: str = "--allow ") -> None:
    """Raise a UserError with every obstacle that is not allowed; `allow` is how that is said."""
    same = "their scores may not mean the same; to compare them all the same:"
    problems = [
        Problem(obstacle.what, where, f"{same} {allow}{obstacle.kind}")
        for obstacle in found
        if obstacle.kind not in allowed
    ]
    if problems:
        raise UserError(problems)


def unlike_metrics(
    name: str, a: Mapping[str, Any], b: Mapping[str, Any], called: tuple[str, str] = ("A", "B")
) -> Iterator[Obstacle]:
    """What of one metric is not the same in two runs, as their manifests have it: configuration, prompts, judge."""
    left, right = a["metrics"][name], b["metrics"][name]
    if left["prompt_sha256"] != right["prompt_sha256"]:
        yield Obstacle("prompt", f"the prompts of metric {name} are not the same")
    ours, theirs = (declared_meaning(manifest, name) for manifest in (a, b))
    keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    if keys:
        yield Obstacle("metric", f"metric {name} is configured otherwise: {', '.join(sorted(keys))}")
    judges = [_identity(manifest, facts["judge"]) for manifest, facts in ((a, left), (b, right))]
    if judges[0] != judges[1]:
        same = left["judge"] == right["judge"]
        how = (
            f"{left['judge']}, with other settings"
            if same
            else f"{left['judge']} in {called[0]} and {right['judge']} in {called[1]}"
        )
        yield Obstacle("judge", f"metric {name} has another judge: {how}")


def other_versions(
    a: Mapping[str, int], b: Mapping[str, int], called: tuple[str, str] = ("A", "B")
) -> Iterator[Obstacle]:
    """The metrics that have another version in two runs.

    Args:
        a: Versions by metric.
        b: Those of the other run.
        called: What the runs are called.
    """
    for name in a:
        if name in b and a[name] != b[name]:
            what = f"metric {name} has version {a[name]} in {called[0]} and {b[name]} in {called[1]}"
            yield Obstacle("metric", what)


def declared_meaning(manifest: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What of a metric's configuration decides what its scores mean; its version, which stands apart, is left out."""
    return {key: value for key, value in _declared(manifest, name).items() if key not in (*_FREE, "version")}


def prepared_steps(folder: RunFolder, name: str) -> list[Any]:
    """The steps that were written for a metric of a run, without their cost and where they were copied from."""
    path = folder.prepared
    entries: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return [entry["steps"] for entry in entries.values() if entry.get("metric") == name]


def _unlike(a: Scored, b: Scored) -> Iterator[Obstacle]:
    shared = [name for name in a.manifest["metrics"] if name in b.manifest["metrics"]]
    for name in shared:
        yield from unlike_metrics(name, a.manifest, b.manifest)
    for name in shared:
        if prepared_steps(a.folder, name) != prepared_steps(b.folder, name):
            what = f"the steps that the judge wrote once per run for metric {name} (prepared.json) are not the same"
            yield Obstacle("prompt", what)


def _declared(manifest: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The configuration of a metric; of a case's check, that of the metric which brought it along."""
    return manifest["config"]["metric"][manifest["metrics"][name]["key"]]


def _identity(manifest: Mapping[str, Any], judge: str | None) -> Any:
    return None if judge is None else manifest["judges"][judge]["identity"]


def _versions(run: Scored) -> dict[str, int]:
    """The version of each metric that has scores, the checks of the cases included."""
    table = run.scores().select("metric", "metric_version").unique().sort("metric").collect(engine="streaming")
    return dict(table.iter_rows())


def _declared_versions(run: Scored) -> dict[str, int]:
    return {name: facts["version"] for name, facts in run.manifest["metrics"].items()}


def _changed_cases(a: Scored, b: Scored) -> list[str]:
    """Ids of cases that ask or expect something else in the two runs; files that are the same are not read."""
    left, right = a.manifest["datasets"], b.manifest["datasets"]
    shared = [name for name in left if name in right and left[name]["sha256"] != right[name]["sha256"]]
    if not shared or not (a.folder.cases.is_file() and b.folder.cases.is_file()):
        return []
    known = {key: digest for key, digest in _digests(a) if key[0] in shared}
    return [key[1] for key, digest in _digests(b) if known.get(key, digest) != digest]


def _digests(run: Scored) -> Iterator[tuple[tuple[str, str], bytes]]:
    """What a case asks and expects, as a digest; what a target said to it plays no part."""
    for case in read_cases(run.folder, run.manifest):
        asked = [message.content for message in case.messages if message.role != "assistant"]
        text = json.dumps([asked, case.reference, case.expected], default=str, sort_keys=True)
        yield (case.dataset, case.id), hashlib.sha256(text.encode(errors="surrogatepass")).digest()
