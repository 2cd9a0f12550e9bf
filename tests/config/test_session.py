"""Hydra's one state among many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evalflow.app.core.assemble import settings_of
from evalflow.config.load import HydraJob, compose, launch

pytestmark = pytest.mark.slow

CHOSEN = ("dataset=rag", "metric=exact_match")


def test_others_compose_while_a_job_runs_and_disturb_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[tuple[str, int, int]] = []
    with ThreadPoolExecutor(1) as other:

        def run(job: HydraJob) -> None:
            # Would end in TimeoutError, and not before, if the other had to wait for this job.
            theirs = other.submit(compose, [*CHOSEN, "seed=77"], None, "theirs").result(timeout=60)
            seen.append((job.folder.relative_to(tmp_path).as_posix(), job.read().values["seed"], theirs.values["seed"]))

        launch(["-m", *CHOSEN, "seed=1,2"], run, None, "mine", settings_of)
    assert seen == [
        ("outputs/sweeps/mine/0_seed=1", 1, 77),
        ("outputs/sweeps/mine/1_seed=2", 2, 77),
    ]


def test_what_a_job_raises_is_raised_and_hydra_is_free_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def run(job: HydraJob) -> None:
        raise RuntimeError(job.folder.name)

    with pytest.raises(RuntimeError, match="mine"):
        launch(CHOSEN, run, None, "mine", settings_of)
    assert compose([*CHOSEN, "seed=3"]).values["seed"] == 3


def test_an_interrupted_job_leaves_hydra_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def run(job: HydraJob) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch(CHOSEN, run, None, "mine", settings_of)
    assert compose([*CHOSEN, "seed=3"]).values["seed"] == 3
