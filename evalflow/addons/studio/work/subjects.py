"""The subject of a problem of a run or a trial, for a link to the page that can solve it."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from evalflow.errors import Problem, Subject, UserError

_FIELDS = {"reference": "an expected answer", "contexts": "the contexts", "answer": "a recorded answer"}


@dataclass(frozen=True, slots=True)
class RunSubjects:
    """The objects that a run is made of.

    `metrics`: the bot's own, by name; `judge`: `target` is the bot itself; `written`: the datasets made here, whose
    cases are written and not mapped.
    """

    bot: str
    judge: str
    metrics: Mapping[str, Mapping[str, object]]
    datasets: Collection[str]
    written: Collection[str] = ()

    @contextmanager
    def linked(self) -> Generator[None]:
        """Add to the problems that are raised in the block what they are about."""
        try:
            yield
        except UserError as error:
            error.problems = [self._here(problem) for problem in error.problems]
            raise

    def _here(self, problem: Problem) -> Problem:
        """A problem with links, and with the next step that there is here."""
        linked, parts = replace(problem, see=problem.see or self._of(problem)), problem.key.split(".")
        if len(parts) == 4 and parts[0] == "dataset" and parts[1] in self.written and parts[2] == "fields":
            named = _FIELDS.get(parts[3], parts[3])
            return replace(linked, hint=f"write {named} in its cases, or leave the metric out", key="")
        return linked

    def _of(self, problem: Problem) -> tuple[Subject, ...]:
        group, _, rest = (problem.key or problem.where).partition(".")
        name, _, key = rest.partition(".")
        match group:
            case "metric" if name in self.metrics:
                own = (Subject("metric", name, self.bot),)
                judge = self.metrics[name].get("judge")
                named = judge if isinstance(judge, str) else self.judge
                return (*own, self._judge(named)) if key.startswith("judge") else own
            case "dataset" if name in self.datasets:
                return (Subject("dataset", name),)
            case "target":
                return (Subject("bot", self.bot),)
            case "judge":
                return (self._judge(self.judge),)
            case _:
                return ()

    def _judge(self, name: str) -> Subject:
        return Subject("bot", self.bot) if name == "target" else Subject("judge", name)
