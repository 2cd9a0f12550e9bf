"""Texts in YAML with `${`, which OmegaConf takes for an interpolation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evalflow.config.load import compose, resolved, self_contained
from evalflow.errors import Problem, UserError

pytestmark = pytest.mark.slow

Refused = Callable[..., Problem]
FILES = {
    "metric/price.yaml": "# @package metric.price\nkind: g_eval\nneeds: [answer]\ncriteria: good\n",
    "dataset/shop.yaml": "# @package dataset.shop\npath: shop.jsonl\n",
    "target/bot.yaml": "defaults: [openai, _self_]\nmodel: m\n",
    "judge/own.yaml": "defaults: [openai, _self_]\nmodel: m\n",
    "experiment/trial.yaml": "# @package _global_\n",
}
WORDS = ("dataset=shop", "metric=price", "judge=own", "target=bot", "experiment=trial")


@pytest.fixture
def refused(tmp_path: Path) -> Refused:
    """Compose with lines added to one of the files; gives the problem."""

    def refused(file: str, lines: str, *words: str) -> Problem:
        for name, text in FILES.items():
            path = tmp_path / "conf" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + (lines if name == file else ""), encoding="utf-8")
        with pytest.raises(UserError) as error:
            compose([*WORDS, *words], tmp_path / "conf")
        (problem,) = error.value.problems
        return problem

    return refused


@pytest.mark.parametrize(
    ("file", "lines", "key"),
    [
        ("metric/price.yaml", "description: It costs %s.\n", "metric.price.description"),
        ("metric/price.yaml", "steps: [a, '%s']\n", "metric.price.steps[1]"),
        ("dataset/shop.yaml", "description: It costs %s.\n", "dataset.shop.description"),
        ("target/bot.yaml", "system_prompt: It costs %s.\n", "target.system_prompt"),
        ("judge/own.yaml", "name: It costs %s.\n", "judge.name"),
        ("experiment/trial.yaml", "metric: {price: {description: 'It costs %s.'}}\n", "metric.price.description"),
    ],
)
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("${AMOUNT}", "${AMOUNT} refers to AMOUNT, which does not exist"),
        ("${AMOUNT:-5}", "${AMOUNT:...} is not an interpolation that exists"),
        ("${the amount}", "${ begins an interpolation, but no valid one follows"),
        ("${", "${ begins an interpolation, but no valid one follows"),
    ],
)
def test_the_file_the_key_and_the_escape_are_named(
    refused: Refused, tmp_path: Path, file: str, lines: str, key: str, text: str, what: str
) -> None:
    problem = refused(file, lines % text)
    assert (problem.what, problem.where) == (what, f"{tmp_path / 'conf' / file}: {key}")
    assert r"write \${ for a literal ${" in problem.hint


def test_on_the_command_line(refused: Refused) -> None:
    problem = refused("", "", "+metric.price.description='for ${AMOUNT}'")
    assert problem.where == "command line: metric.price.description"


def test_the_escape_in_double_quotes(refused: Refused, tmp_path: Path) -> None:
    problem = refused("metric/price.yaml", 'description: "\\${AMOUNT}"\n')
    assert problem.hint == "in double quotes a backslash is written \\\\; in single quotes as it is"
    (tmp_path / "conf/metric/price.yaml").write_text(FILES["metric/price.yaml"] + 'description: "\\\\${AMOUNT}"\n')
    assert compose(WORDS, tmp_path / "conf").values["metric"]["price"]["description"] == "${AMOUNT}"


def test_a_part_can_be_replaced_after_references_to_it_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K1_KEY", "hush")
    bot = {"model": "m-${version}", "url": "http://127.0.0.1/${.model}", "headers": {"key": "${oc.env:K1_KEY}"}}
    storable: dict[str, object] = {
        "version": 3,
        "target": {**bot, "limits": [1, "${version}"]},
        "judge": {
            "model": "${target.model}",
            "name": "a ${target.model} of ${..target.url}",
            "n": "${target.limits[1]}",
        },
        "embedder": {"headers": "${target.headers}", "cost": r"\${target.model}", "model": "${oc.env:ABSENT,x}"},
        "metric": {"own": {"name": "${target.${which}}"}},
        "which": "model",
    }
    copied = self_contained(storable)
    address = "http://127.0.0.1/m-3"
    assert copied["judge"] == {"model": "m-3", "name": f"a m-3 of {address}", "n": 3}
    assert copied["embedder"] == {
        "headers": {"key": "${oc.env:K1_KEY}"},
        "cost": r"\${target.model}",
        "model": "${oc.env:ABSENT,x}",
    }
    assert copied["metric"] == {"own": {"name": "m-3"}}
    assert resolved(copied) == resolved(storable)
    assert "hush" not in str(copied)
