"""Count the cases in scripts that a judge, an embedder or a metric does not support."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from evalflow.app.core.assemble import Parts
from evalflow.errors import UserError
from evalflow.llm.panel import single
from evalflow.records import Case
from evalflow.values.segments import script_of

_EXCERPT = 500  # characters of each text used to detect its script


class ScriptChecks:
    """Checks every case, or one for several in the same script; Latin letters, which all support, are skipped."""

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
        for found, names in ((self._judges, judges), (self._embedders, embedders)):
            for name in names:
                found[name, case.dataset][script] += times

    def remarks(self) -> Iterator[str]:
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
