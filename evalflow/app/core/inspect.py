"""Looking at everything before the first request: the data, the prompts on it, who can judge it, what it will cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from evalflow.app.core.assemble import Parts, alike
from evalflow.app.core.composites import Asking, Recipe, ScoreName, composites, scorers_of, thresholds, undecided_parts
from evalflow.app.core.data_checks import Census, DataLabels
from evalflow.app.core.estimate import Estimate, Estimator
from evalflow.app.core.reading import Reading, baseline_answers
from evalflow.config.validate import Settings
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.protocols import Judge, Measured, Metric
from evalflow.records import EMBED, Case
from evalflow.run.plan import Draw
from evalflow.summary.gates import SHARES, Gate, parse_gates


def gates_of(settings: Settings, metrics: Mapping[str, Measured], problems: list[Problem]) -> Sequence[Gate]:
    """The gates of a run; what is wrong with them goes to `problems`.

    Args:
        settings: The run's.
        metrics: By the names that their scores have.
        problems: Where to complain.
    """
    try:
        return parse_gates(settings.run.gate, metrics, settings.run.baseline)
    except UserError as error:
        problems += error.problems
        return ()


def undecidable_gates(recipe: Recipe) -> Iterator[Problem]:
    """Gates on a pass rate where nothing will pass or fail, for want of a threshold."""
    judged = {threshold.metric for threshold in thresholds(recipe)}
    for gate in recipe.gates:
        concerned = list(recipe.metrics) if gate.metric is None else [gate.metric]
        if gate.statistic not in SHARES or judged & {*concerned}:
            continue
        name = concerned[0]
        judge, metric = recipe.judge_of[name], recipe.metrics[name].config
        who = f"{gate.metric} has no" if gate.metric else "no metric has a"
        what = f"there is no {gate.statistic}: {who} threshold"
        hint = f"metric.{name}.threshold=0.8"
        if judge is not None and metric.threshold is not None:
            what += f" that holds with the judge {judge}, which is not calibrated"
            hint = f"say where its scores pass: 'judge.thresholds={{{name}: 0.5}}'"
        yield Problem(what, f"gate.{gate.about}.{gate.statistic}", hint)


def wrong_thresholds(settings: Settings, metrics: Mapping[str, Measured]) -> Iterator[Problem]:
    """Thresholds of judges and of the embedder for what is no metric, or where no score can be.

    A judge may well have some for metrics that this run leaves out.
    """
    run = settings.run
    files = (file for folder in settings.composed.conf_folders for file in (folder / "metric").glob("[!_]*.yaml"))
    known = {*run.metric, *metrics, *(file.stem for file in files)}
    own = {name: (metric.judge or {}).get("thresholds") for name, metric in run.metric.items()}
    declared = {"judge": run.judge.thresholds, "embedder": run.embedder.thresholds}
    declared |= {f"metric.{name}.judge": found for name, found in own.items()}
    for key, stated in declared.items():
        for name, value in (stated or {}).items():
            where = f"{key}.thresholds.{name}"
            if name not in known:
                yield Problem(f"there is no metric {name!r}", where, did_you_mean(name, known))
            elif name in metrics and metrics[name].bounded and not 0 <= float(value) <= 1:
                yield Problem(f"{float(value):g} is no threshold of {name}", where, "its scores lie in 0..1")


SAMPLE = 20
"""How many cases of each dataset prompts are rendered against."""


@dataclass(slots=True)
class Inspection:
    """What was found.

    Attributes:
        parts: What was inspected.
        reading: All cases.
        cases: Selected cases by dataset.
        labelled: Those of them that bring people's labels along.
        cells: Scores the run will have.
        draw: Which cases are selected.
        scored: What the scores will be called, in order, and what makes them.
        gates: The conditions that decide the exit code.
        estimate: Requests, tokens and cost.
        remarks: What about the data people should know.
    """

    parts: Parts
    reading: Reading
    draw: Draw
    cases: Counter[str] = field(default_factory=Counter[str])
    labelled: Counter[str] = field(default_factory=Counter[str])
    cells: int = 0
    scored: dict[str, ScoreName] = field(default_factory=dict[str, ScoreName])
    gates: Sequence[Gate] = ()
    estimate: Estimate = field(default_factory=Estimate)
    remarks: Sequence[str] = ()

    @property
    def judges(self) -> dict[str, Judge]:
        """Those that will be asked, by name; an embedder among them."""
        return {one.judge.info.name: one.judge for one in self.scored.values() if one.judge}

    def recipe(self) -> Recipe:
        """How results are derived from the run's files."""
        settings = self.parts.settings
        return Recipe(
            settings,
            {name: one.metric for name, one in self.scored.items()},
            {name: one.judge.info.name if one.judge else None for name, one in self.scored.items()},
            scorers_of(
                settings,
                {name: Asking(one.declared, one.metric.asks, one.metric.embeds) for name, one in self.scored.items()},
            ),
            [name for name, one in self.scored.items() if one.metric.asks],
            self.gates,
        )

    def notices(self) -> list[str]:
        """What people should know before they read the numbers."""
        shadows = [
            f"{key} comes from {file}, in place of the packaged one"
            for key, file in self.parts.settings.composed.shadowed
        ]
        return [*shadows, *self.remarks, *self._partial_judges(), *alike(self.parts), *self._unfenced()]

    def _partial_judges(self) -> list[str]:
        """Judges that are the very model they judge."""
        target = _model(self.parts.settings.run.target)
        asked = (one for pair in self.parts.pairs for one in self.parts.asked(pair))
        own = {judge.info.name for judge, config in asked if target is not None and _model(config) == target}
        return [
            f"the judge {name} is the model that it judges ({target}), and models tend to prefer their own answers "
            "(self-preference); hold it against a judge of another family: judge=openai judge.model=NAME"
            for name in sorted(own)
        ]

    def _unfenced(self) -> list[str]:
        """Prompts that show a judge what it judges as if it were theirs."""
        return [
            f"metric {name}: its prompt {prompt} shows {' and '.join(shown)} without `fenced`, so that a text in there "
            "could pass for an instruction"
            for name, metric in self.parts.metrics.items()
            for prompt in metric.prompts
            if (shown := self.parts.prompts.unfenced(prompt))
        ]

    def selected(self) -> Iterator[Case]:
        """The selected cases, in input order."""
        return self.draw.pick(self.reading)


def inspect(parts: Parts) -> Inspection:
    """Read all data, and check everything against it; nothing is sent.

    Raises:
        UserError: With every problem that was found.
    """
    run = parts.settings.run
    found = Inspection(parts, Reading(run, baseline_answers(parts.settings)), Draw(run.sample, run.seed))
    census, estimator, labels = Census(parts), Estimator(parts), DataLabels(parts.settings)
    for case in found.reading:
        census.add(case)
        found.draw.offer(case)
        if run.sample is None:
            _count(found, estimator, labels, case)
    if run.sample is not None:
        for case in found.selected():
            _count(found, estimator, labels, case)
    made, unmade = composites(parts, found.scored)
    found.scored |= made
    measured = {name: one.metric for name, one in found.scored.items()}
    problems = [*_judges_that_cannot(found), *census.problems(), *labels.problems()]
    problems += [*estimator.problems, *estimator.silent.values(), *unmade]
    problems += wrong_thresholds(parts.settings, measured)
    found.gates = gates_of(parts.settings, measured, problems)
    recipe = found.recipe()
    problems += [*undecided_parts(recipe, thresholds(recipe)), *undecidable_gates(recipe)]
    found.remarks = [*census.remarks(), *labels.remarks()]
    if problems:
        raise UserError(problems)
    found.estimate = estimator.scaled(found.cases)
    return found


def _count(found: Inspection, estimator: Estimator, labels: DataLabels, case: Case) -> None:
    run = found.parts.settings.run
    found.cases[case.dataset] += 1
    found.labelled[case.dataset] += bool(case.labels)
    measured: dict[str, Metric] = {}
    for pair in found.parts.pairs:
        try:
            bound = pair.bound(case, run.repeats.judge)
        except UserError:
            return  # the census tells of it
        if pair.metric.parts and pair.metric.config.covers(case.dataset):
            measured[pair.metric.name] = pair.metric
        for one, repeats in bound:
            found.cells += repeats * run.repeats.target
            measured[one.metric.name] = one.metric
            found.scored.setdefault(one.metric.name, ScoreName(one.metric, one.judge, pair.metric.name))
    labels.add(case, measured)
    if found.cases[case.dataset] <= SAMPLE:
        estimator.add(case)


def _model(config: object) -> str | None:
    """The model of a judge or target, without the vendor that some endpoints put in front of it."""
    model: str | None = getattr(config, "model", None)
    return model.rpartition("/")[2].lower() if model else None


def refusal_of(metric: Metric, judge: Judge | None) -> tuple[str, str] | None:
    """The first step of a metric that its judge has no answer to, and why; None where there is none."""
    refusals = ((step, judge.info.explain_refusal(task)) for step, task in metric.tasks.items() if judge)
    return next(((step, refusal) for step, refusal in refusals if refusal), None)


def _judges_that_cannot(found: Inspection) -> Iterator[Problem]:
    """Metrics whose judge has no answer to what they ask."""
    for name, one in found.scored.items():
        refused = refusal_of(one.metric, one.judge)
        if refused:
            hint = "choose a language model as the judge: judge=openai, or another of `list judge`"
            if one.metric.tasks[refused[0]] == EMBED:
                hint = "or choose another embedder: embedder=openai, or another of `list embedder`"
            hint += _way_around(found, name, one)
            yield Problem(f"{name}, step {refused[0]}: {refused[1]}", f"metric.{one.declared}", hint)


def _way_around(found: Inspection, name: str, refused: ScoreName) -> str:
    """The checks of the same metric that nobody is asked for; nothing to say of a metric that is no check."""
    if name == refused.declared:
        return ""
    free = [other for other, one in found.scored.items() if one.declared == refused.declared and one.judge is None]
    identifiers = dict.fromkeys(other.partition("#")[0] for other in free)
    key = found.parts.settings.key("metric", refused.declared)
    return f"\n  or run the checks that need none: '{key}.only=[{','.join(identifiers)}]'" if identifiers else ""
