"""The page on clusters: its commands run, its files are well-formed, and its tables are those of the code."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

from evalflow.addons.cluster.config import RayEngineConfig
from evalflow.addons.cluster.driver import _IN_A_ROW  # pyright: ignore[reportPrivateUsage]
from evalflow.addons.cluster.shards import LOSSES
from evalflow.app.core.assemble import composed_settings
from evalflow.app.run import resume
from evalflow.testing import Endpoint
from tests.cli.conftest import judge_arguments
from tests.docs.test_readme import ROOT, blocks, run

PAGE = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
HERE, BEGUN = blocks("bash", PAGE)
NODES, SLURM = blocks("sh", PAGE)
DEFAULTS, JOB_FILE = blocks("yaml", PAGE)
MANIFEST: dict[str, Any] = yaml.safe_load(JOB_FILE)

JOB = {"entrypoint", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished", "rayClusterSpec"}
CLUSTER = {"rayVersion", "authOptions", "headGroupSpec", "workerGroupSpecs"}
HEAD = {"rayStartParams", "template"}
WORKERS = {"groupName", "replicas", "minReplicas", "maxReplicas", *HEAD}
"""Fields of KubeRay's `ray.io/v1`."""


def words_of(text: str) -> list[list[str]]:
    """What follows `python -m evalflow` on each line of a text that has it."""
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line.partition("-m evalflow ")[2], comments=True) for line in lines if "-m evalflow " in line]


def ray_options(command: str) -> set[str]:
    if find_spec("ray") is None:
        pytest.skip("NO RAY: the options of its commands are not checked; pip install -e '.[ray]'")
    from ray.scripts.scripts import cli

    return {name for option in cli.commands[command].params for name in option.opts}


@pytest.mark.slow
def test_a_run_is_begun_here_and_finished_on_a_cluster(tmp_path: Path) -> None:
    if find_spec("ray") is None:
        pytest.skip("NO RAY: the page's commands are not run; pip install -e '.[ray]'")
    begin, finish = BEGUN.splitlines()
    short = tempfile.TemporaryDirectory(prefix="ray", dir="/tmp")  # paths of sockets must be short
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": short.name, "HOME": short.name}
    with short, Endpoint() as endpoint:
        begun = run(" ".join([begin, "limit=20", *judge_arguments(endpoint.url)]), tmp_path)
        assert begun.returncode == 4, begun.stderr
        assert endpoint.count == 30
        command = [sys.executable, *shlex.split(finish)[1:], "engine.actors=2"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "ray: 2 actors on 1 node" in done.stderr
    assert endpoint.count == 40  # two calls a case, and none twice


def test_its_other_commands_are_ones_that_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = [*words_of(HERE), *words_of(NODES), *words_of(SLURM), *words_of(MANIFEST["spec"]["entrypoint"])]
    assert len(found) == 4
    for words in found:
        engine = composed_settings(words, None).run.engine
        assert isinstance(engine, RayEngineConfig)
        assert engine.address == (None if words in words_of(HERE) else "auto")


def test_the_defaults_of_a_folder_are_taken(tmp_path: Path) -> None:
    for folder in ("local", "metric"):
        (tmp_path / folder).mkdir()
    (tmp_path / "local" / "default.yaml").write_text(DEFAULTS, encoding="utf-8")
    engine = composed_settings(["dataset=rag", "metric=exact_match"], tmp_path).run.engine
    assert isinstance(engine, RayEngineConfig)
    assert engine.address == "auto"


def test_the_commands_of_ray_have_their_options() -> None:
    for line in NODES.splitlines():
        if line.startswith("ray start"):
            assert set(re.findall(r"--[a-z-]+", line)) <= ray_options("start")
    started = SLURM.partition("ray symmetric-run")[2].partition(" -- ")[0]
    assert set(re.findall(r"--[a-z-]+", started)) <= ray_options("symmetric-run") | ray_options("start")


def test_the_script_for_slurm_is_one_of_bash() -> None:
    done = subprocess.run(["bash", "-n"], input=SLURM, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert SLURM.startswith("#!/bin/bash\n#SBATCH ")


def test_the_manifest_has_the_fields_of_kuberay() -> None:
    rules = YamlLintConfig(file=str(ROOT / ".yamllint.yaml"))
    assert not [str(one) for one in linter.run(JOB_FILE, rules) if one.rule != "document-start"]
    job, cluster = MANIFEST["spec"], MANIFEST["spec"]["rayClusterSpec"]
    assert (MANIFEST["apiVersion"], MANIFEST["kind"]) == ("ray.io/v1", "RayJob")
    assert (set(job), set(cluster), set(cluster["headGroupSpec"])) == (JOB, CLUSTER, HEAD)
    assert cluster["authOptions"] == {"mode": "token"}
    assert f"ray=={cluster['rayVersion']}" in (ROOT / "constraints.txt").read_text(encoding="utf-8")
    [workers] = cluster["workerGroupSpecs"]
    assert set(workers) == WORKERS
    pods = [cluster["headGroupSpec"]["template"]["spec"], workers["template"]["spec"]]
    assert len({pod["containers"][0]["image"] for pod in pods}) == 1
    assert pods[0]["containers"][0]["envFrom"] == pods[1]["containers"][0]["envFrom"]
    params = [cluster["headGroupSpec"]["rayStartParams"], workers["rayStartParams"]]
    assert {f"--{name}" for one in params for name in one} <= ray_options("start")
    steps = [line.split()[0] for line in blocks("dockerfile", PAGE)[0].splitlines()]
    assert set(steps) == {"FROM", "RUN", "COPY", "USER", "WORKDIR"}


def test_the_table_of_keys_is_the_schemas() -> None:
    rows = re.findall(r"^\| `engine\.(\w+)` \| `(.+?)` \|", PAGE, re.MULTILINE)
    default = RayEngineConfig(kind="ray").model_dump(exclude={"kind"})
    assert {name: yaml.safe_load(text) for name, text in rows} == default


def test_the_numbers_of_losses_are_the_codes() -> None:
    numbers = {3: "three", 10: "ten"}
    assert f"a shard that has lost {numbers[LOSSES]} actors" in PAGE
    assert f"{numbers[_IN_A_ROW]} actors are lost in a row" in PAGE
    assert resume.__doc__
    assert "engine=ray" in resume.__doc__
