"""Shared parts of reports: the header with facts of a run and its judges, and the writing of HTML pages."""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich import box
from rich.table import Table

from evalflow.errors import command, quoted
from evalflow.paths import replacing
from evalflow.records.manifest import Manifest, MetricFacts, SweepManifest
from evalflow.report import wording
from evalflow.report.wording import bracketed, cost, counted, literal, percent, plain_line, provider_savings

if TYPE_CHECKING:
    from jinja2 import Environment


Fact = tuple[str, str]
JUDGE = "judge: "
"""The beginning of a judge's line."""
SELF_JUDGED = "the model that it judges, and models tend to prefer their own answers"
_NAMED = 4
_MINUTE = 60
_FOLDED = 34  # width of the names in a terminal's table
_SEEN = {
    "seen": "sees",
    "not seen": "is blind to",
    "not kept": "is misled by",
    "cannot tell": "leaves open, with so few cases,",
}
_MEASURES = {"kappa": "kappa", "kappa_weighted": "weighted kappa", "spearman": "Spearman"}


def facts(manifest: Manifest | SweepManifest) -> list[Fact]:
    """Label and text of the main facts of a run or a sweep; totals of an unfinished one are left out."""
    run = None if isinstance(manifest, SweepManifest) else manifest
    sent, received = manifest.input_tokens, manifest.output_tokens
    datasets = [f"{run.dataset_title(one)} ({counted(n.cases)})" for one, n in run.datasets.items()] if run else []
    entries: list[tuple[str, str | None]] = [
        ("Run" if run else "Sweep", manifest.run_id),
        ("Started", _moment(manifest.started_at)),
        ("Time", _duration(manifest.seconds)),
        ("Status", manifest.status),
        ("Dataset", ", ".join(datasets)),
        ("Target", run and ", ".join(dict.fromkeys([run.bot_title, run.target.name]))),
        ("Metrics", run and ", ".join(run.titles.get(name, name) for name in run.metrics)),
        ("Requests", _requests(manifest)),
        ("Tokens", None if sent is None or received is None else f"{sent:,} in, {received:,} out"),
        ("Cost", cost(manifest.cost_usd) if "cost_usd" in manifest.model_fields_set else None),
        ("Saved", cost(manifest.saved_usd) if manifest.cached else None),
        ("Provider", provider_savings(manifest)),
        ("Versions", run and _versions(run)),
        ("Command", quoted("python", "-m", "evalflow", *manifest.overrides)),
    ]
    return [(label, text) for label, text in entries if text]


def of_what(manifest: Manifest) -> str:
    """The bot and the datasets of a run by their titles, such as `Library desk on Fees`."""
    datasets = ", ".join(manifest.dataset_titles)
    return f"{manifest.bot_title} on {datasets}" if datasets else manifest.bot_title


def subtitle(manifest: Manifest) -> str:
    """The metrics of a run, its cases and its day."""
    metrics = [manifest.titles.get(name, name) for name in manifest.metrics]
    cases = sum(about.cases for about in manifest.datasets.values())
    return wording.joined(", ".join(metrics), counted(cases), manifest.started_at[:10])


def title(manifest: Manifest) -> str:
    """A one-line title, such as `faithfulness, relevance on rag`; else the run's id."""
    metrics = [manifest.titles.get(name, name) for name in manifest.metrics]
    datasets = manifest.dataset_titles
    if not metrics or not datasets:
        return manifest.run_id
    what = ", ".join(metrics) if len(metrics) <= _NAMED else f"{len(metrics)} metrics"
    return f"{what} on {', '.join(datasets)}"


def _moment(text: str) -> str:
    """An ISO time to the second, with a space, and UTC spelled out."""
    stem = text.removesuffix("Z").removesuffix("+00:00")
    zone = " UTC" if stem != text else ""
    return stem.split(".")[0].replace("T", " ") + zone


def _duration(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _requests(manifest: Manifest | SweepManifest) -> str | None:
    if "requests" not in manifest.model_fields_set:
        return None
    sent = "unknown" if manifest.requests is None else f"{manifest.requests:,}"
    return sent + (f", {manifest.cached:,} more from the cache" if manifest.cached else "")


def _versions(manifest: Manifest) -> str:
    """The main versions; the manifest at the end of the page has all."""
    texts = [f"{name} {manifest.versions[name]}" for name in ("evalflow", "python") if name in manifest.versions]
    if commit := manifest.git_commit:
        texts.append(f"commit {commit[:10]}{' with changes' if commit.endswith('+') else ''}")
    return ", ".join(texts)


def judge_lines(manifest: Manifest, metrics: Collection[str] | None = None) -> list[str]:
    """A line for each judge, such as `judge: embedded (text overlap, not an LLM), uncalibrated`.

    With `metrics`, only judges of these, and what is known of these.
    """
    shown = {one: facts for one, facts in manifest.metrics.items() if metrics is None or one in metrics}
    asked = {facts.judge for facts in shown.values()}
    lines: list[str] = []
    for name, about in manifest.judges.items():
        if metrics is not None and name not in asked:
            continue
        nature = f" ({about.nature})" if about.nature else ""
        nature += f", {SELF_JUDGED}" if about.judges_itself else ""
        own = {metric: facts for metric, facts in shown.items() if facts.judge == name}
        lines.append(f"{JUDGE}{name}{nature}, {'; '.join(_calibrations(own, manifest)) or 'uncalibrated'}")
        for metric, facts in own.items():
            if facts.proof and (findings := _proved(facts.proof)):
                title, on = manifest.titles.get(metric, metric), manifest.dataset_title(facts.proof["dataset"])
                lines.append(plain_line(f"{title} {'; '.join(findings)} (proved on {on})"))
    return lines or [f"{JUDGE}none (no metric needs one)"]


def seen(findings: Mapping[str, Sequence[str]]) -> list[str]:
    """How a judge reacts to changed answers: `sees addition`, `is blind to number, negation`."""
    return [
        f"{verb} {', '.join(findings[finding]).replace('_', ' ')}"
        for finding, verb in _SEEN.items()
        if findings.get(finding)
    ]


def _proved(proof: Mapping[str, Any]) -> list[str]:
    people = proof["people"]
    agreed = [f"agrees with labels in {percent(people['value'])} of {counted(people['n'], 'case')}"] if people else []
    return [*seen({**proof["findings"], "cannot tell": []}), *agreed]


def sample_lines(manifest: Manifest) -> list[str]:
    """Notes on the run's sample, a line each: cases not asked, looks, resumption and replies of earlier runs."""
    asked, of = sum(manifest.asked.values()), sum(about.cases for about in manifest.datasets.values())
    order = manifest.order
    ordering = f"in random order (seed {order.seed})" if order.shuffled else "in the order of the data"
    lines = [*answer_lines(manifest), *([_endings(manifest.endings)] if manifest.endings else [])]
    if 0 < asked < of:
        stops = {"decided": "all gates were decided", "race": "the race was decided"}
        why = stops[manifest.stopped] if manifest.stopped else f"the run ended early, {manifest.status}"
        lines.append(
            f"not asked: {of - asked:,} of {of:,} cases, as {why}; means are over the {asked:,} asked {ordering}"
        )
        if manifest.stopped:
            lines.append(
                "stopped by looks: intervals allow for it; means that gates looked at are adjusted for its bias"
            )
        elif not order.shuffled:
            lines.append("they are not a random sample of all cases")
    elif order.shuffled:
        lines.append(f"cases were asked {ordering}")
    again = "each further look raises the error of gates without `looks`"
    if manifest.ended_before:
        lines.append(f"resumed after results had been written: if they were looked at before, {again}")
    elif _is_extended(manifest):
        cached = f"{manifest.cached:,} replies are from earlier runs"
        lines.append(f"{cached}: if this extends a smaller sample that was looked at, {again}")
    return [*lines, *manifest.notes]


_ENDED = {
    "goal_reached": "reached the goal",
    "gave_up": "gave up",
    "turns": "reached the limit of turns",
    "tokens": "reached the limit of tokens",
    "usd": "reached the limit of US dollars",
    "seconds": "reached the limit of seconds",
    "script_over": "came to the end of the script",
    "spoke_as_bot": "failed because the user spoke as the bot",
    "failed": "failed",
}


def ending_words(ended: str) -> str:
    """How a simulated conversation ended, as the end of a sentence."""
    return _ENDED.get(ended, ended)


def answer_lines(manifest: Manifest, folder: str = "") -> list[str]:
    """A line for each fault of answers: cut off, withheld, or without the scored part.

    `folder` is the run's, if it may not be the latest run.
    """
    target: Mapping[str, Any] = manifest.config.get("target") or {}
    extract: Mapping[str, Any] = target.get("extract") or {}
    key = next((key for key in _EXTRACT_KEYS if extract.get(key) is not None), "")
    limit = "raise target.max_tokens" if "max_tokens" in target else "raise the limit of the target's replies"
    listing = command("cases", *filter(None, (folder, "--cut-off")))
    phrases = {
        "cut_off": ("cut off at a limit of tokens", f"; {limit}; list them: {listing}"),
        "filtered": ("withheld by a content filter", ""),
        "not_extracted": (f"target.extract.{key} found nothing", "; they count as wrong where answers are compared"),
    }
    lines: list[str] = []
    for name, fault in manifest.answer_faults.items():
        what, more = phrases[name]
        which = ", ".join(fault.cases) + (" and more" if fault.n > len(fault.cases) else "")
        lines.append(f"{what}: {fault.n:,} of {counted(fault.of, 'answer')} ({which}){more}")
    return lines


_EXTRACT_KEYS = ("pattern", "path", "after", "line")


def _endings(endings: Mapping[str, int]) -> str:
    """How simulated conversations ended: `simulated users: of 8 conversations 6 reached the goal, 2 gave up`."""
    breakdown = ", ".join(f"{n:,} {ending_words(ended)}" for ended, n in endings.items())
    return f"simulated users: of {counted(sum(endings.values()), 'conversation')} {breakdown}"


def _is_extended(manifest: Manifest) -> bool:
    """Whether a run with gates takes part of its replies from earlier runs, as one with a larger `sample` does."""
    config = manifest.config
    metrics: Mapping[str, Mapping[str, Any]] = config.get("metric") or {}
    own: Mapping[str, Mapping[str, Any]] = config.get("gate") or {}
    gates: list[Mapping[str, Any]] = [*own.values(), *(metric.get("gate") or {} for metric in metrics.values())]
    part = bool(config.get("sample") or config.get("limit"))
    partly_known = bool(manifest.cached and manifest.requests)
    return part and partly_known and any(gate and "looks" not in gate for gate in gates)


def certificate_table(certificates: Sequence[Mapping[str, Any]]) -> Table:
    """A row for each certificate: metric, judge, agreement with labels, consistency, and date."""
    table = Table(title="certificates", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("metric", "judge", "with labels", "with itself", "unparsable", "issued"):
        table.add_column(heading)
    for one in certificates:
        again, replies = one["consistency"], one["replies"]
        repeated = "not tested" if again is None else f"{again['same']:.0%} the same"
        unparsable = "unknown" if replies["unparsable"] is None else f"{replies['unparsable']:.1%}"
        cells = (one["metric"], one["judge"], _result(one), repeated, unparsable, one["issued_at"][:10])
        table.add_row(*(literal(cell) for cell in cells))
    return table


def verdict_of(metric: str, certificate: Mapping[str, Any]) -> str:
    """The judge's agreement with labels: `calibrated for tone: kappa 0.61 ...`, or that no agreement was shown."""
    if _agrees(certificate):
        return f"calibrated for {metric}: {_result(certificate)}"
    labels, on = f"{metric} checked against {certificate['n_labels']} labels", f"on {certificate['dataset']}"
    return f"{labels}: no agreement shown, {', '.join([*_figures(certificate), on])}"


def _calibrations(metrics: Mapping[str, MetricFacts], run: Manifest) -> Iterator[str]:
    """The judge's agreement with labels for each metric with a certificate; names the run if it is not `run`."""
    certificates = {name: facts.certificate for name, facts in metrics.items()}
    if not any(certificates.values()):
        return
    for name, certificate in certificates.items():
        title = plain_line(run.titles.get(name, name))
        if certificate is None:
            yield f"uncalibrated for {title}"
        elif certificate["stale"]:
            yield f"uncalibrated for {title} (changed since it was labelled: {', '.join(certificate['stale'])})"
        else:
            of = "" if certificate["run_id"] == run.run_id else f", of run {certificate['run_id']}"
            dataset = plain_line(run.dataset_title(certificate["dataset"]))
            yield verdict_of(title, {**certificate, "dataset": dataset}) + of


def _result(certificate: Mapping[str, Any]) -> str:
    labels = f"{certificate['n_labels']} labels on {certificate['dataset']}"
    none = [] if _agrees(certificate) else ["no agreement shown"]
    return ", ".join([*none, *_figures(certificate), labels])


def _agrees(certificate: Mapping[str, Any]) -> bool:
    from evalflow.summary.agreement import beyond_chance  # late: few runs have a certificate

    return beyond_chance(certificate["agreement"])


def _figures(certificate: Mapping[str, Any]) -> Iterator[str]:
    from evalflow.summary.agreement import headline_measure

    measures: Mapping[str, Mapping[str, Any]] = certificate["agreement"]
    name = headline_measure(measures)
    if name is not None:
        one = measures[name]
        ends = bracketed(one.get("ci_low"), one.get("ci_high"), "{:.2f}".format)
        yield f"{_MEASURES[name]} {one['value']:.2f}{ends}"
    bias = certificate["bias"]["value"]
    if bias is not None:
        yield f"bias {bias:+.3f}"


class PageColumn(NamedTuple):
    """The heading of a column, the class of its cells (empty for text), and the heading's tooltip."""

    name: str
    style: str = ""
    about: str = ""


class Bar(NamedTuple):
    """A value with its interval, and optionally a limit, drawn as a bar with the interval below."""

    value: float | None
    low: float | None
    high: float | None
    limit: float | None = None


Cell = str | tuple[str, ...] | Bar
"""A text, a text with smaller ones below it, or a bar."""


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of a page. Each row begins with its name."""

    columns: Sequence[PageColumn]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""


def terminal_table(page_table: PageTable, without: str = "") -> Table:
    """The table for a terminal, without the small texts in cells, and without the column named `without`."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    shown = [place for place, column in enumerate(page_table.columns) if column.name != without]
    for column in (page_table.columns[place] for place in shown):
        heading = literal(f"{column.name[:1].lower()}{column.name[1:]}")
        if column.style:
            table.add_column(heading, justify="right", no_wrap=True)
        else:
            table.add_column(heading, overflow="fold")
    for row in page_table.rows:
        texts = [cell if isinstance(cell, str) else str(cell[0]) for cell in row]
        texts[0] = wording.folded(texts[0], _FOLDED)
        table.add_row(*(literal(texts[place]) for place in shown))
    return table


INTERVAL = PageColumn("95 % interval", "interval")
METHOD = PageColumn("Method", "method")


_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class PageHead:
    """The head of a page: kind, title and subtitle, judges, and notes on the sample.

    `headlines` are the opening sentences, each with its details. `facts` are in the appendix; `wide` lays them out in
    one column.
    """

    kicker: str
    title: str
    subtitle: str
    judges: list[str]
    samples: list[str] = field(default_factory=list[str])
    facts: Sequence[Fact] = ()
    wide: bool = False
    headlines: Sequence[tuple[str, str]] = ()

    @property
    def note(self) -> list[str]:
        """The text repeated over each table: the judge, if there is only one, and notes on the sample."""
        judges = [line for line in self.judges if line.startswith(JUDGE)]
        return [*(judges if len(judges) == 1 else ()), *self.samples]


def write_page(
    path: Path,
    template: str,
    head: PageHead,
    context: Mapping[str, Any],
    *,
    scripts: Sequence[str] = ("print.js",),
    styles: Sequence[str] = ("page.css", "tables.css", "sweep.css", "print.css"),
) -> None:
    """Render a template with these files of templates/, in chunks; iterables of markup in the context are streamed."""
    style, script = _assets(styles, scripts)
    policy = content_policy(styles, scripts)
    with replacing(path) as file:
        page = environment().get_template(template)
        file.writelines(page.generate(context, head=head, style=style, script=script, policy=policy))


def content_policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """The content security policy of a page: only its own style and script, by their digests."""
    sources = zip(("style", "script"), _assets(styles, scripts), strict=True)
    digests = {
        kind: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for kind, text in sources if text
    }
    allowed = [f"{kind}-src 'sha256-{digest}'" for kind, digest in digests.items()]
    return "; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"])


@cache
def environment() -> Environment:
    """The templates' environment: everything is escaped, and an undefined variable is an error."""
    from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
    from jinja2.bccache import Bucket

    class Compiled(FileSystemBytecodeCache):
        """Caches compiled templates next to their source; without effect in a read-only folder."""

        def dump_bytecode(self, bucket: Bucket) -> None:
            if sys.dont_write_bytecode:
                return
            with suppress(OSError):
                Path(self.directory).mkdir(exist_ok=True)
                super().dump_bytecode(bucket)

    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=Compiled(str(_TEMPLATES / "__pycache__")),
    )
    filters = {name: getattr(wording, name) for name in ("number", "percent", "cost", "method")}
    untyped: Any = made
    untyped.filters |= filters
    untyped.globals |= {"interval": wording.interval}
    return made


def _joined(names: Sequence[str]) -> str:
    return "".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in names)


def _assets(styles: Sequence[str], scripts: Sequence[str]) -> tuple[str, str]:
    script = _joined(scripts)
    return _joined(styles), f'"use strict";(() => {{\n{script}}})();' if script else ""
