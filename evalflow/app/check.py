"""The command `check`: all steps of a run before its first request. It writes nothing and sends nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from evalflow.app.core.assemble import assemble, composed_settings, secrets_of, with_default_judge
from evalflow.app.core.begin import described
from evalflow.app.core.destinations import Destination, destinations
from evalflow.app.core.inspect import Inspection, inspect
from evalflow.config.schema import DatasetConfig
from evalflow.datasets.fields import named_columns
from evalflow.datasets.profile import Profile, in_words, type_line
from evalflow.errors import Problem, UserError
from evalflow.llm.registry import default_name
from evalflow.redaction import Redactor
from evalflow.report.wording import literal, plain, print_json


def check(overrides: Sequence[str], config_dir: Path | None, console: Console, *, as_json: bool) -> int:
    """Compose and validate the configuration, read all data, render prompts on the first cases, and estimate."""
    if flags := [word for word in overrides if word.startswith("-")]:
        raise UserError(Problem(f"check does not take {flags[0]}", "command line", "check one composition at a time"))
    facts = _facts(examined(overrides, config_dir))
    if as_json:
        print_json(console, facts)
    else:
        _print(console, facts)
    return 0


def examined(overrides: Sequence[str], config_dir: Path | None) -> Inspection:
    """What a run would be; UserError if it would be refused before its first request."""
    found = inspect(assemble(composed_settings(with_default_judge(overrides, config_dir), config_dir)))
    if found.parts.settings.run.baseline is not None:
        described(found)  # raises if the baseline is not a run to compare with
    return found


def _facts(found: Inspection) -> dict[str, Any]:
    rules = found.rules()
    settings = found.parts.settings
    return {
        "datasets": dict(found.cases),
        "metrics": {name: {"judge": metric.judge} for name, metric in rules.metrics.items()},
        "judges": {name: judge.info.nature for name, judge in found.judges.items()},
        "target": found.parts.target.name,
        "simulator": _simulator(found),
        "target_calls": Redactor(secrets_of(settings)).text(settings.run.target.calls or "") or None,
        "sends": [asdict(one) for one in destinations(found)],
        "target_runs_here": settings.run.target.runs_here and settings.run.generate in (True, "missing"),
        "programs": [
            Redactor(secrets_of(settings)).text(shlex.join(argv))
            for metric in settings.run.metric.values()
            for argv in metric.programs
        ],
        "thresholds": [
            {"metric": t.metric, "judge": t.judge, "threshold": t.value, "direction": t.direction}
            for t in rules.thresholds()
        ],
        "gates": [f"{gate}" + (f", looks: {gate.looks}" if gate.looks else "") for gate in rules.gates],
        "scores": found.cells,
        "profiles": {name: _profile(profile, found.parts.datasets[name]) for name, profile in found.profiles.items()},
        "notices": found.notices(),
        "estimate": asdict(found.estimate),
        "prices": {name: price for name, price in found.parts.prices().items() if price},
    }


def _profile(profile: Profile, config: DatasetConfig) -> dict[str, Any]:
    """Return probable mistakes in the cases, and the lines of YAML that fix how they are read."""
    typed = profile.read_as_text()
    columns = {"reference": next(iter(named_columns("reference", (config.fields or {}).get("reference"))), None)}
    lines = [type_line(name, wanted, columns.get(name)) for name, wanted in typed.items()]
    return {"half_filled": profile.half_filled() or None, "read_as_text": typed, "lines": lines}


def _simulator(found: Inspection) -> str | None:
    config = found.parts.settings.run.simulator
    if not config.turns:
        return None
    who = default_name(config, found.parts.settings.composed.choices.get("simulator", config.kind))
    return f"{who} · up to {config.turns} turns in each of {found.scenarios:,} conversations"


def _print(console: Console, facts: dict[str, Any]) -> None:
    estimate = facts["estimate"]
    low, high = estimate["cost_usd_low"], estimate["cost_usd_high"]
    cost = "unknown: the judge or target has no price (judge.price, target.price)"
    if low is not None and high is not None:
        cost = f"${low:.4f} to ${high:.4f}"
    requests = f"about {estimate['requests']:,}" if estimate["requests"] else "none"
    requests += f", {estimate['preparing']} of them to prepare" if estimate["preparing"] else ""
    rows = [
        ("cases", ", ".join(f"{n:,} of {name}" for name, n in facts["datasets"].items())),
        ("target", " · ".join(part for part in (facts["target"], facts["target_calls"]) if part)),
        *([("simulator", facts["simulator"])] if facts["simulator"] else []),
        ("judges", "; ".join(f"{name} ({nature})" for name, nature in facts["judges"].items()) or "none"),
        ("metrics", ", ".join(facts["metrics"])),
        *(("starts", f"{program}, once for each of its checks") for program in facts["programs"]),
        ("scores", f"{facts['scores']:,}"),
        *_sends(facts),
        ("requests", requests),
    ]
    if estimate["rounds"]:
        rounds = "1 round" if estimate["rounds"] == 1 else f"{estimate['rounds']} rounds"
        rows.append(("by batch", f"{rounds} of batches, and one more for each time that replies are asked for again"))
    if estimate["requests"]:
        rows += [
            ("input", f"{estimate['input_tokens_low']:,} to {estimate['input_tokens_high']:,} tokens"),
            ("output", f"{estimate['output_tokens_low']:,} to {estimate['output_tokens_high']:,} tokens"),
            ("cost", cost),
            *[("price", f"{name}: {_price(price)}") for name, price in facts["prices"].items()],
        ]
    for label, text in rows:
        console.print(Text.assemble((f"{label:<10}", "dim"), plain(text)))
    for name, profile in facts["profiles"].items():
        _print_profile(console, name, profile)
    for notice in facts["notices"]:
        console.print(literal(f"note: {notice}", style="yellow"))
    console.print(literal("all is well; nothing was sent", style="green"))


def _print_profile(console: Console, name: str, profile: Mapping[str, Any]) -> None:
    if profile["half_filled"]:
        console.print(literal(f"note: {name}: {profile['half_filled']}", style="dim"), soft_wrap=True)
    if typed := profile["read_as_text"]:
        how = ", ".join(profile["lines"])
        line = f"note: {name}: read as texts: {in_words(typed)}; to read them so, under `fields` of its file: {how}"
        console.print(literal(line, style="dim"), soft_wrap=True)


def _sends(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Return a row for each address that data is sent to, or one saying that nothing leaves this machine."""
    places = [Destination(**one) for one in facts["sends"]]
    yield from (("sends to", str(place)) for place in places)
    if all(place.here for place in places):
        unless = "; what its programs send is not known" if facts["programs"] or facts["target_runs_here"] else ""
        yield "sends" if not places else "", f"nothing leaves this machine{unless}"


def _price(price: dict[str, Any]) -> str:
    if price["source"] == "none":
        return "not known"
    dollars = f"${price['input_per_million']:g} in, ${price['output_per_million']:g} out, a million tokens"
    dollars += f", {price['batch']:g} of it by batch" if "batch" in price else ""
    return f"{dollars} (by {price['library']})" if price["source"] == "library" else dollars
