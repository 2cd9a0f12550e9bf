"""The command `check`: all steps of a run before its first request. It writes nothing and sends nothing."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from evalflow.app.core.assemble import assemble, composed_settings, secrets_of, with_default_judge
from evalflow.app.core.begin import described
from evalflow.app.core.destinations import Destination, destinations
from evalflow.app.core.inspect import Estimate, Inspection, inspect
from evalflow.config.schema import DatasetConfig
from evalflow.datasets.fields import named_columns
from evalflow.datasets.profile import Profile, in_words, type_line
from evalflow.errors import Problem, UserError
from evalflow.llm.registry import default_name
from evalflow.records import Case
from evalflow.redaction import Redactor
from evalflow.report.wording import literal, plain, print_json


def check(overrides: Sequence[str], config_dir: Path | None, console: Console, *, as_json: bool) -> int:
    """Compose and validate the configuration, read all data, render prompts on the first cases, and estimate."""
    if flags := [word for word in overrides if word.startswith("-")]:
        raise UserError(Problem(f"check does not take {flags[0]}", "command line", "check one composition at a time"))
    profiles = defaultdict[str, Profile](Profile)
    summary = _checked(examined(overrides, config_dir, lambda case: profiles[case.dataset].add(case)), profiles)
    if as_json:
        print_json(console, asdict(summary))
    else:
        _print(console, summary)
    return 0


def examined(overrides: Sequence[str], config_dir: Path | None, *on_case: Callable[[Case], None]) -> Inspection:
    """What a run would be; UserError if it would be refused before its first request. `on_case` get every case."""
    inspection = inspect(
        assemble(composed_settings(with_default_judge(overrides, config_dir), config_dir)), on_case=on_case
    )
    if inspection.parts.settings.run.baseline is not None:
        described(inspection)  # raises if the baseline is not a run to compare with
    return inspection


@dataclass(frozen=True, slots=True)
class _Checked:
    """What `check` has found; its fields are the keys of `check --json`.

    Attributes:
        judges: What each judge is, in words.
        target_calls: What the target calls, without secrets.
        target_runs_here: Whether the target is a program or code on this machine.
        programs: The command lines that metrics start.
        scores: How many scores the run will have.
        profiles: Probable mistakes in each dataset.
        prices: As in run.json, of all who have one.
    """

    datasets: Mapping[str, int]
    metrics: Mapping[str, Mapping[str, str | None]]
    judges: Mapping[str, str]
    target: str
    simulator: str | None
    target_calls: str | None
    sends: Sequence[Destination]
    target_runs_here: bool
    programs: Sequence[str]
    thresholds: Sequence[Mapping[str, object]]
    gates: Sequence[str]
    scores: int
    profiles: Mapping[str, _CaseProfile]
    notices: Sequence[str]
    estimate: Estimate
    prices: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class _CaseProfile:
    """Probable mistakes in the cases of a dataset, and the lines of YAML that correct how they are read."""

    half_filled: str | None
    read_as_text: Mapping[str, str]
    lines: Sequence[str]


def _checked(inspection: Inspection, profiles: Mapping[str, Profile]) -> _Checked:
    rules = inspection.rules()
    settings = inspection.parts.settings
    public = Redactor(secrets_of(settings)).text
    return _Checked(
        datasets=dict(inspection.cases),
        metrics={name: {"judge": metric.judge} for name, metric in rules.metrics.items()},
        judges={name: judge.info.nature for name, judge in inspection.judges.items()},
        target=inspection.parts.target.name,
        simulator=_simulator(inspection),
        target_calls=public(settings.run.target.calls or "") or None,
        sends=destinations(inspection),
        target_runs_here=settings.run.target.runs_here and settings.run.generate in (True, "missing"),
        programs=[public(shlex.join(argv)) for metric in settings.run.metric.values() for argv in metric.programs],
        thresholds=[
            {"metric": t.metric, "judge": t.judge, "threshold": t.value, "direction": t.direction}
            for t in rules.thresholds()
        ],
        gates=[f"{gate}" + (f", looks: {gate.looks}" if gate.looks else "") for gate in rules.gates],
        scores=inspection.cells,
        profiles={name: _profile(profile, inspection.parts.datasets[name]) for name, profile in profiles.items()},
        notices=inspection.notices(),
        estimate=inspection.estimate,
        prices={name: price for name, price in inspection.parts.prices().items() if price},
    )


def _profile(profile: Profile, config: DatasetConfig) -> _CaseProfile:
    typed = profile.read_as_text()
    columns = {"reference": next(iter(named_columns("reference", (config.fields or {}).get("reference"))), None)}
    lines = [type_line(name, wanted, columns.get(name)) for name, wanted in typed.items()]
    return _CaseProfile(profile.half_filled() or None, typed, lines)


def _simulator(inspection: Inspection) -> str | None:
    config = inspection.parts.settings.run.simulator
    if not config.turns:
        return None
    who = default_name(config, inspection.parts.settings.composed.choices.get("simulator", config.kind))
    return f"{who} · up to {config.turns} turns in each of {inspection.scenarios:,} conversations"


def _print(console: Console, summary: _Checked) -> None:
    rows = [
        ("cases", ", ".join(f"{n:,} of {name}" for name, n in summary.datasets.items())),
        ("target", " · ".join(part for part in (summary.target, summary.target_calls) if part)),
        *([("simulator", summary.simulator)] if summary.simulator else []),
        ("judges", "; ".join(f"{name} ({nature})" for name, nature in summary.judges.items()) or "none"),
        ("metrics", ", ".join(summary.metrics)),
        *(("starts", f"{program}, once for each of its checks") for program in summary.programs),
        ("scores", f"{summary.scores:,}"),
        *_sends(summary),
        *_estimated(summary),
    ]
    for label, text in rows:
        console.print(Text.assemble((f"{label:<10}", "dim"), plain(text)))
    for name, profile in summary.profiles.items():
        _print_profile(console, name, profile)
    for notice in summary.notices:
        console.print(literal(f"note: {notice}", style="yellow"))
    console.print(literal("all is well; nothing was sent", style="green"))


def _estimated(summary: _Checked) -> Iterator[tuple[str, str]]:
    estimate = summary.estimate
    if not estimate.requests:
        yield "requests", "none"
        return
    preparing = f", {estimate.preparing} of them to prepare" if estimate.preparing else ""
    yield "requests", f"about {estimate.requests:,}{preparing}"
    if estimate.rounds:
        rounds = "1 round" if estimate.rounds == 1 else f"{estimate.rounds} rounds"
        yield "by batch", f"{rounds} of batches, and one more for each time that replies are asked for again"
    yield "input", f"{estimate.input_tokens_low:,} to {estimate.input_tokens_high:,} tokens"
    yield "output", f"{estimate.output_tokens_low:,} to {estimate.output_tokens_high:,} tokens"
    low, high = estimate.cost_usd_low, estimate.cost_usd_high
    known = low is not None and high is not None
    unknown = "unknown: the judge or target has no price (judge.price, target.price)"
    yield "cost", f"${low:.4f} to ${high:.4f}" if known else unknown
    yield from (("price", f"{name}: {_price(price)}") for name, price in summary.prices.items())


def _print_profile(console: Console, name: str, profile: _CaseProfile) -> None:
    if profile.half_filled:
        console.print(literal(f"note: {name}: {profile.half_filled}", style="dim"), soft_wrap=True)
    if typed := profile.read_as_text:
        how = ", ".join(profile.lines)
        line = f"note: {name}: read as texts: {in_words(typed)}; to read them so, under `fields` of its file: {how}"
        console.print(literal(line, style="dim"), soft_wrap=True)


def _sends(summary: _Checked) -> Iterator[tuple[str, str]]:
    """Return a row for each address that data is sent to, or one saying that nothing leaves this machine."""
    yield from (("sends to", str(place)) for place in summary.sends)
    if all(place.here for place in summary.sends):
        unless = "; it is unknown what its programs send" if summary.programs or summary.target_runs_here else ""
        yield "sends" if not summary.sends else "", f"nothing leaves this machine{unless}"


def _price(price: Mapping[str, Any]) -> str:
    if price["source"] == "none":
        return "not known"
    dollars = f"${price['input_per_million']:g} in, ${price['output_per_million']:g} out, a million tokens"
    dollars += f", {price['batch']:g} of it by batch" if "batch" in price else ""
    return f"{dollars} (by {price['library']})" if price["source"] == "library" else dollars
