"""What is defined here goes to files and comes back as it was."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from evalflow.addons.studio.work import bots, cases, datasets, judges, metrics, projects
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.space import TakenError, Workspace, open_workspace
from evalflow.addons.studio.work.titles import checked_title
from evalflow.addons.studio.work.transfer import export_files, import_files
from evalflow.addons.studio.work.validate import check_metric
from evalflow.config.load import read_yaml, resolved
from evalflow.config.yaml_text import escaped, escaped_but_environment, unescaped, yaml_of
from evalflow.errors import UserError
from tests.cli.conftest import Program
from tests.config.test_load import BOMB
from tests.postgres import ON_SQLITE

# What YAML, OmegaConf or Hydra could take for something else, and any other text.
URL = "http://127.0.0.1:9/v1"
TRICKY = st.sampled_from(
    ["${x}", "\\${x}", "\\\\${oc.env:HOME}", "on", "1e5", "010", "12:30", "~", "#", "a: b", "", "- x"]
)
TEXT = st.one_of(TRICKY, st.text(st.characters(exclude_categories=["C"])), st.tuples(TRICKY, TRICKY).map("".join))
TITLE = st.one_of(st.sampled_from(["on", "1e5", "12:30", "~", "#", "a: b", "- x", "{{ x }}", "会議 🙂"]), TEXT).filter(
    lambda text: is_title(text)
)
VALUES: Any = st.recursive(
    st.one_of(
        TEXT, st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)


def is_title(text: str) -> bool:
    try:
        return bool(checked_title(text, "bot"))
    except UserError:
        return False


@pytest.mark.slow
@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_any_value_comes_back_from_yaml_and_means_itself(values: dict[str, Any]) -> None:
    text = yaml_of(escaped(values))
    assert unescaped(read_yaml(text)) == values
    assert resolved(read_yaml(text)) == values


def test_a_variable_keeps_its_meaning_where_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOT_KEY", "sesame")
    text = yaml_of(
        escaped_but_environment({"a": "Bearer ${oc.env:BOT_KEY}", "b": "${now:}", "c": "\\${oc.env:BOT_KEY}"})
    )
    assert resolved(read_yaml(text)) == {"a": "Bearer sesame", "b": "${now:}", "c": "\\${oc.env:BOT_KEY}"}


@pytest.mark.slow
@settings(
    max_examples=8,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # each example takes long: to shrink one would take minutes
)
@given(
    title=TITLE,
    criteria=TEXT.filter(str.strip),
    steps=st.lists(TEXT.filter(str.strip), min_size=1, max_size=3),
    data=st.data(),
)
def test_the_round_trip_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, title: str, criteria: str, steps: list[str], data: st.DataObject
) -> None:
    definition = {"kind": "g_eval", "criteria": criteria, "steps": steps, "needs": ["question", "answer"]}
    try:
        check_metric("m", definition)
    except UserError:
        return  # it cannot be kept in the first place
    rows = [
        {"question": data.draw(TEXT.filter(str.strip)), "vars": {"x": data.draw(VALUES)}, "tags": ["A > B"], "id": "c"}
    ]
    monkeypatch.chdir(tmp_path)
    with TemporaryDirectory(dir=tmp_path) as name:
        place = Path(name)
        before = _filled(place / "one.db", definition, rows, title)
        export_files(before, place / "out", "helper", ["mine"])
        after = open_workspace(f"sqlite:///{place / 'two.db'}")
        import_files(after, place / "out")
        assert _content(after) == _content(before)
        before.close()
        after.close()


@ON_SQLITE
@pytest.mark.slow
def test_an_export_runs_on_the_command_line(space: Workspace, tmp_path: Path) -> None:
    bots.create_bot(space, "helper", {"kind": "recorded"})
    metrics.copy_metric(space, "exact_match", "helper", "same")
    endpoint = {"kind": "openai", "model": "m", "base_url": URL}
    judges.create_judge(space, "careful", endpoint, "Takes its time.", "Sorgfältig?")
    graded = {"kind": "g_eval", "criteria": "Is it right?", "needs": ["question", "answer"], "judge": "careful"}
    metrics.create_metric(space, "helper", MetricDraft("graded", graded))
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", [{"question": "q", "answer": "a", "reference": "a"}])
    export_files(space, tmp_path / "out", "helper", ["mine"])
    words = ["--config-dir", "out/conf", "dataset=mine", "metric=same", "target=helper"]
    done = Program(tmp_path)(*words)
    assert done.returncode == 0, done.stderr
    with pytest.raises(UserError, match="not empty"):
        export_files(space, tmp_path / "out", "helper")
    with pytest.raises(TakenError) as taken:
        import_files(space, tmp_path / "out")
    assert len(taken.value.problems) == 3
    there = projects.create_project(space, "elsewhere")
    other = space.in_project(there.name)
    assert import_files(other, tmp_path / "out").judges == ["careful"]
    one, same = judges.get_judge(space, "careful"), judges.get_judge(other, "careful")
    assert (one.config, one.description, one.used_by) == (same.config, same.description, same.used_by)
    assert one.title == same.title == "Sorgfältig?"
    assert metrics.get_metric(other, "helper", "graded").definition == graded


@pytest.mark.slow
def test_a_fault_in_the_middle_of_an_import_leaves_nothing(
    space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = {"kind": "g_eval", "criteria": "Kind?", "needs": ["question", "answer"]}
    other = _filled(tmp_path / "other.db", definition, [{"question": "q"}])
    export_files(other, tmp_path / "out", "helper", ["mine"])
    other.close()

    def failing(*_: object) -> int:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(
            "evalflow.addons.studio.store.cases.append", failing
        )  # bot, metric and dataset are written before
        with pytest.raises(OSError, match="no space left"):
            import_files(space, tmp_path / "out")
    assert [bot for bot in bots.list_bots(space) if bot.origin == "workspace"] == []
    assert [one for one in datasets.list_datasets(space) if one.origin == "workspace"] == []
    assert import_files(space, tmp_path / "out").metrics == ["m"]
    assert metrics.get_metric(space, "helper", "m").prompts == {"m/mine.jinja": "A {{ question }}\r\n\n"}


@ON_SQLITE
def test_all_that_is_wrong_with_a_folder_is_said_at_once(space: Workspace, tmp_path: Path) -> None:
    for group, text in (("target", "kind: recorded\n"), ("metric", "# @package metric.import\nkind: exact_match\n")):
        folder = tmp_path / "in" / "conf" / group
        folder.mkdir(parents=True)
        (folder / ("new.yaml" if group == "target" else "import.yaml")).write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as refused:
        import_files(space, tmp_path / "in")
    said = [problem.what.split(" cannot")[0] for problem in refused.value.problems]
    assert said == ["'new'", "'import'", "there is no metric kind 'exact_match'"]


def _filled(file: Path, definition: dict[str, Any], rows: list[dict[str, Any]], title: str | None = None) -> Workspace:
    space = open_workspace(f"sqlite:///{file}")
    config = {"kind": "openai", "model": "m", "system_prompt": "Say ${x} to {{ question }}"}
    bots.create_bot(space, "helper", config, "Helps\n # people.", title)
    draft = MetricDraft("m", definition, {"m/mine.jinja": "A {{ question }}\r\n\n"}, title)
    metrics.create_metric(space, "helper", draft)
    datasets.create_dataset(space, "mine", "Mine: all.", "actual", title)
    cases.add_cases(space, "mine", rows)
    return space


def _content(space: Workspace) -> list[Any]:
    bot, dataset = bots.get_bot(space, "helper"), datasets.get_dataset(space, "mine")
    return [
        (bot.title, bot.config, bot.description),
        [(one.name, one.title, one.definition, one.prompts) for one in metrics.list_metrics(space, "helper")],
        (dataset.title, dataset.description, dataset.generates, dataset.cases),
        list(cases.case_rows(space, "mine")),
    ]


@ON_SQLITE
def test_files_whose_aliases_grow_beyond_measure_are_refused(space: Workspace, tmp_path: Path) -> None:
    for group in ("target", "metric"):
        (folder := tmp_path / "from" / "conf" / group).mkdir(parents=True)
        (folder / "mine.yaml").write_text(BOMB, encoding="utf-8")
    with pytest.raises(UserError, match=r"with its aliases \(\*NAME\) written out it has more than"):
        import_files(space, tmp_path / "from")


@pytest.mark.parametrize("place", ["conf/target/x.yaml", "prompts/m/p.jinja", "data/d.jsonl", "data"])
def test_a_link_in_a_folder_is_not_followed(space: Workspace, tmp_path: Path, place: str) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (tmp_path / "in" / "conf").mkdir(parents=True)
    link = tmp_path / "in" / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(secret)
    with pytest.raises(UserError, match=f"{place} is a link"):
        import_files(space, tmp_path / "in")
