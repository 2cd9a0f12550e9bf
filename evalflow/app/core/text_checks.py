"""Check the texts of cases before a run: questions, parts that judges cannot see, and unsupported scripts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

from evalflow.app.core.assemble import Parts
from evalflow.app.core.cases import is_generated
from evalflow.app.core.data_checks import SHOWN, placed
from evalflow.errors import Problem, UserError
from evalflow.llm.panel import single
from evalflow.records import Case
from evalflow.report.wording import counted
from evalflow.targets.turn_template import turn_template
from evalflow.values.segments import script_of

_NONE = "the case has no question, but others have one"
_NO_TEXT = "target.prompt gives it an empty message"


class QuestionChecks:
    """Checks every case, or one for several of its kind. A dataset with `allow_irregular` may lack questions.

    What it reads of a case must be in `_kind` of `case_kinds`.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._run = parts.settings.run
        self._prompt = turn_template(getattr(self._run.target, "prompt", None), "target.prompt", parts.prompts)
        self._flagged: list[tuple[Case, str]] = []
        self._more: Counter[tuple[str, str]] = Counter()
        self._asked: Counter[str] = Counter()
        self._pictures: Counter[str] = Counter()

    def add(self, case: Case, times: int = 1) -> None:
        self._pictures[case.dataset] += times * any(message.parts for message in case.messages)
        if self._parts.datasets[case.dataset].allow_irregular:
            return
        if self._prompt is not None and is_generated(self._run, case):
            if not self._prompt.text_for(case, unknown="-").strip():
                self._keep(case, _NO_TEXT, times)
        elif case.messages:
            self._asked[case.dataset] += times
        elif case.scenario is None:
            self._keep(case, _NONE, times)

    def problems(self) -> Iterator[Problem]:
        """Cases whose question is empty, each with its place in the file."""
        pairs = [(case, self._problem(case, what)) for case, what in self._flagged if self._counts(case.dataset, what)]
        for place, problem in placed(self._parts.datasets, pairs):
            yield replace(problem, where=place or problem.where)
        for (name, what), n in self._more.items():
            if self._counts(name, what):
                yield Problem(f"and {n:,} more cases like these", f"dataset.{name}")

    def remarks(self) -> Iterator[str]:
        """Parts of messages that judges do not see."""
        for dataset, n in self._pictures.items():
            if n:
                yield (
                    f"parts of messages that are not text, such as images, in {counted(n)} of {dataset}: a target by "
                    "chat completions gets them, judges read [image] in their place"
                )

    def _keep(self, case: Case, what: str, times: int) -> None:
        if len(self._flagged) < SHOWN:
            self._flagged.append((case, what))
        else:
            self._more[case.dataset, what] += times

    def _counts(self, dataset: str, what: str) -> bool:
        return what != _NONE or self._asked[dataset] > 0

    def _problem(self, case: Case, what: str) -> Problem:
        key = self._parts.settings.key("dataset", case.dataset)
        hint = f"write it, or leave the case out; if it is meant: {key}.allow_irregular=true"
        return Problem(f"case {case.id!r}: {what}", f"dataset.{case.dataset}", hint)


_EXCERPT = 500  # characters of each text used to detect its script


class ScriptChecks:
    """Checks every case, or one for several like it; Latin letters, which all support, are skipped."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._cases: Counter[str] = Counter()
        self._judges: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter[str])
        self._embedders: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter[str])
        self._metrics: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter[str])

    def add(self, case: Case, times: int = 1) -> None:
        self._cases[case.dataset] += times
        script = script_in(case)
        if script in (None, "Latin"):
            return
        judges: set[str] = set()
        embedders: set[str] = set()
        for pair in self._parts.pairs:
            try:
                bound = [metric for metric in pair.metric.bind(case) if not metric.is_off]
            except UserError:
                continue  # DataChecks reports it
            if any(metric.asks for metric in bound) and pair.judge is not None:
                judges |= {one.info.name for one in single(pair.judge) if not _knows(one.info.scripts, script)}
            if any(metric.embeds for metric in bound) and pair.embedder is not None:
                embedders |= set() if _knows(pair.embedder.info.scripts, script) else {pair.embedder.info.name}
            for metric in bound:
                if script in metric.unknown_scripts:
                    self._metrics[metric.name, case.dataset][script] += times
        for counts, names in ((self._judges, judges), (self._embedders, embedders)):
            for name in names:
                counts[name, case.dataset][script] += times

    def remarks(self) -> Iterator[str]:
        """Return the scripts that each does not support, with the number of cases."""
        for role, named in (("judge", self._judges), ("embedder", self._embedders)):
            for (name, dataset), scripts in named.items():
                yield (
                    f"{role} {name}: {self._counted(dataset, scripts)}. Its model is English, so its scores say little "
                    f"there; use a model that knows these languages, such as {role}=openai"
                )
        for (name, dataset), scripts in self._metrics.items():
            yield (
                f"metric {name}: {self._counted(dataset, scripts)}. They have no spaces between words; "
                f"metric.{name}.tokenize=auto takes each character as a word"
            )

    def _counted(self, dataset: str, scripts: Counter[str]) -> str:
        which = ", ".join(f"{script} {n:,}" for script, n in scripts.most_common())
        shares = f"{scripts.total():,} of {self._cases[dataset]:,} cases of {dataset}"
        return f"{shares} are in scripts that it does not know ({which})"


def _knows(scripts: frozenset[str] | None, script: str) -> bool:
    return scripts is None or script in scripts


def script_in(case: Case) -> str | None:
    """Return the script of excerpts of the texts that are compared and asked; None if they have no letters."""
    texts = [case.answer, *case.references[:1], *(one.text for one in (case.contexts or ())[:1]), case.question]
    return script_of("\n".join(text[:_EXCERPT] for text in texts if text))
