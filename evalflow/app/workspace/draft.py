"""A run of one case with a metric that is being defined, as far as it can be put together."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from anyio import to_thread

from evalflow.app.setup.assemble import Parts, assemble
from evalflow.app.setup.inspect import refusal_of
from evalflow.app.setup.select import offered
from evalflow.app.setup.settings import settings_of
from evalflow.app.workspace.bots import get_bot
from evalflow.app.workspace.case_rows import read_rows
from evalflow.app.workspace.compose import judge_of
from evalflow.app.workspace.metrics import MetricDraft
from evalflow.app.workspace.run_types import RunRequest
from evalflow.app.workspace.snapshot import Choice, Own, write_own
from evalflow.app.workspace.space import Workspace
from evalflow.app.workspace.validate import check_metric
from evalflow.calls.session import CallSession
from evalflow.config.load import Composed, compose
from evalflow.config.panels import each_judge
from evalflow.config.validate import Settings
from evalflow.errors import Problem, UserError
from evalflow.records import Case

DATASET = "trial"


@contextmanager
def drafted(space: Workspace, bot: str, draft: MetricDraft, row: Mapping[str, Any]) -> Generator[tuple[Settings, Case]]:
    """The settings of a run of one case, and the case; the files that they name are there meanwhile.

    Raises:
        NotFoundError: There is no such bot.
        UserError: With all that is wrong with the metric or the case.
    """
    found = get_bot(space, bot)
    definition, prompts = check_metric(draft.name, draft.definition, draft.prompts)
    list(read_rows(DATASET, [row]))
    own = Own(
        targets={bot: found.config} if found.origin == "workspace" else {},
        metrics={draft.name: (definition, prompts)},
        datasets={DATASET: ({}, [row])},
    )
    choice = Choice(bot, [DATASET], [draft.name], judge_of(found.config, RunRequest(bot, [DATASET], [draft.name])))
    asked = "false" if found.config.get("kind") == "recorded" else "missing"
    with TemporaryDirectory() as folder:
        write_own(Path(folder), own)
        words = [*choice.words(), f"generate={asked}"]
        settings = _safe(compose(words, Path(folder) / "conf", check=_safe))
        yield settings, next(offered(settings.run))


def _safe(composed: Composed) -> Settings:
    return settings_of(composed, programs=False)


async def assembled(settings: Settings) -> Parts:
    """The parts of a run, with a judge that can answer what it is asked.

    Raises:
        UserError: It cannot, or a key is not set.
    """
    parts = await to_thread.run_sync(lambda: assemble(settings, session=CallSession()))
    for pair in parts.pairs:
        refused = refusal_of(pair.metric, pair.judge)
        if refused:
            await parts.close()
            hint = "name a model that judges"
            raise UserError(Problem(f"step {refused[0]}: {refused[1]}", "metric.judge", hint, key="judge.model"))
    return parts


def keyless(settings: Settings) -> Settings:
    """The settings without keys: what is not sent needs none."""
    target = _without_key(settings.run.target)
    judges = {name: each_judge(judge, _without_key) for name, judge in settings.judges.items()}
    embedder = _without_key(settings.run.embedder)
    run = settings.run.model_copy(update={"target": target, "embedder": embedder})
    return replace(settings, run=run, judges=judges)


def _without_key(config: Any) -> Any:
    return config.model_copy(update={"api_key_env": None}) if hasattr(config, "api_key_env") else config
