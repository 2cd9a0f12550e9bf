"""Warnings about a run's configuration, to read before its results."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evalflow.app.core.assemble import Parts
from evalflow.config.judges import CascadeConfig
from evalflow.config.targets import AgentTargetConfig, CommandTargetConfig
from evalflow.llm.panel import Panel


def shadows(parts: Parts) -> Iterator[str]:
    """Return warnings about files that replace packaged ones, and about ignored addresses and keys in files."""
    for key, file in parts.settings.composed.shadowed:
        yield f"{key} comes from {file}, in place of the packaged one"
    for one in parts.settings.composed.untaken:
        yield str(one)


def notices(parts: Parts, *, preparing: int) -> Iterator[str]:
    """Warnings on repeats, batches, who judges whom, and prompts; `preparing`: how many requests prepare metrics."""
    yield from _same_answers(parts)
    yield from _asked_anew(parts)
    if parts.session.batches is not None:
        yield from _sent_directly(parts, preparing)
    yield from _self_judging(parts)
    yield from _similar_panels(parts)
    yield from _unfenced(parts)


def _same_answers(parts: Parts) -> Iterator[str]:
    run = parts.settings.run
    times = run.repeats.target
    if times > 1 and run.generate in (False, "demo"):
        yield (
            f"repeats.target={times} takes each answer of the data {times} times, always the same: ask the target for "
            f"others with generate=true, or have each judged {times} times with repeats.judge={times}"
        )


def _asked_anew(parts: Parts) -> Iterator[str]:
    """Return a warning, for targets that are local code, about reusing answers of earlier runs."""
    run, target = parts.settings.run, parts.settings.run.target
    if run.generate in (False, "demo") or not target.runs_here or run.cache.mode not in ("on", "read"):
        return
    what = f"answers of {target.calls}"
    if isinstance(target, AgentTargetConfig | CommandTargetConfig):  # whose arguments may hold a secret
        what = "results of tools" if isinstance(target, AgentTargetConfig) else "answers of the command"
    if (version := getattr(target, "version", None)) is None:
        why = "code can change without a trace, in a file that it reads or a value that it keeps"
        yield f"{what} in earlier runs are not reused: {why}; target.version=WORD reuses those of the same word"
    else:
        yield f"{what} in earlier runs of version {version} are reused; change target.version when they may differ"


def self_judges(parts: Parts) -> set[str]:
    """The judges that are the model that they judge, and the panels that have such a member."""
    target = _model(parts.settings.run.target)
    own = ((pair, judge, config) for pair in parts.pairs for judge, config in parts.asked(pair))
    same_model = [(pair, judge) for pair, judge, config in own if target and _model(config) == target]
    return {one.info.name for pair, judge in same_model for one in (judge, pair.judge) if one is not None}


def _self_judging(parts: Parts) -> Iterator[str]:
    target, own = _model(parts.settings.run.target), self_judges(parts)
    asked = {judge.info.name for pair in parts.pairs for judge, _ in parts.asked(pair)}
    for name in sorted(asked & own):
        yield (
            f"the judge {name} is the model that it judges ({target}), and models tend to prefer their own answers "
            "(self-preference); compare it with a judge of another family: judge=openai judge.model=NAME"
        )


def _sent_directly(parts: Parts, preparing: int) -> Iterator[str]:
    target = parts.settings.run.target
    asks = parts.settings.run.generate and target.calls and not getattr(target, "batch", False)
    names = [parts.target.name] if asks else []
    asked = (one for pair in parts.pairs for one in parts.asked(pair))
    names += [judge.info.name for judge, config in asked if judge.info.remote and not getattr(config, "batch", False)]
    names += [pair.embedder.info.name for pair in parts.pairs if pair.embedder and pair.embedder.info.remote]
    names += ["what prepares metrics"] if preparing else []
    if names:
        yield f"sent directly, at full price, and not by batch: {', '.join(dict.fromkeys(names))}"


def _similar_panels(parts: Parts) -> Iterator[str]:
    """Notices on panels whose members are models of one family: the first word of the name, gpt of gpt-4.1-mini."""
    named: set[str] = set()
    for pair in parts.pairs:
        if not isinstance(pair.judge, Panel) or isinstance(pair.judge.config, CascadeConfig):
            continue
        families = {re.split("[^a-z]", _model(config))[0] for _, config in parts.asked(pair)}
        family = families.pop()
        if not families and family and pair.judge.info.name not in named:
            named.add(pair.judge.info.name)
            yield (
                f"all members of the panel {pair.judge.info.name} are {family} models: what one of them overlooks the "
                "others are likely to overlook as well; take members of several families"
            )


def _unfenced(parts: Parts) -> Iterator[str]:
    """Prompts that insert texts without marking them as data, so that the judge may read them as instructions."""
    for name, metric in parts.metrics.items():
        for prompt in metric.prompts:
            if shown := parts.prompts.unfenced(prompt):
                yield (
                    f"metric {name}: its prompt {prompt} shows {' and '.join(shown)} without `fenced`, so that a text "
                    "in there could pass for an instruction"
                )


def _model(config: object) -> str:
    """The model of a judge or target, without the vendor prefix of some endpoints; empty if it has none."""
    return str(getattr(config, "model", None) or "").rpartition("/")[2].lower()
