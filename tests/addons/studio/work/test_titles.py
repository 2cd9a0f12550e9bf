"""Titles in any script, and the names that are derived from them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.addons.studio.work import bots, checks, datasets, judges, metrics, projects, trash
from evalflow.addons.studio.work.checks import CheckDraft
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.space import TakenError, Workspace
from evalflow.addons.studio.work.titles import (
    LONGEST_CASE_TITLE,
    LONGEST_TITLE,
    Titles,
    case_title,
    checked_title,
    name_for,
    titles_of,
    titles_of_projects,
)
from evalflow.addons.studio.work.validate import RESERVED, check_name
from evalflow.errors import UserError

RECORDED = {"kind": "recorded"}
EXACT = {"kind": "check", "needs": ["answer", "reference"], "checks": [{"op": "contains", "against": "reference"}]}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("calibrated for is_kind: kappa 0.25, 66 labels on fees", "calibrated for Kind: kappa 0.25, 66 labels on Fees"),
        ("metric kind has version 1 in A and 2 in B", "metric Kind enough has version 1 in A and 2 in B"),
        ("judge: stern (LLM m), uncalibrated", "judge: Stern judge (LLM m), uncalibrated"),
        ("agreement (stern_two → stern_two, 9 labels)", "agreement (Sterner → Sterner, 9 labels)"),
        ("fees, kind: only A has it", "Fees, Kind enough: only A has it"),
        ("for fees like these on kind days, judge stern", "for fees like these on kind days, judge stern"),
        ("metric kind on dataset fees, for judge: stern", "metric Kind enough on dataset Fees, for judge: Stern judge"),
        ("fees, kind: case 'is_kind' or \"is_kind\"", "Fees, Kind enough: case 'is_kind' or \"is_kind\""),
        ("the judge's is_kind isn't the people's", "the judge's Kind isn't the people's"),
        ("The fees of a kind judge on stern days", "The fees of a kind judge on stern days"),
        ("metric.is_kind=2 of is_kind.jinja in data/is_kind", "metric.is_kind=2 of is_kind.jinja in data/is_kind"),
    ],
)
def test_a_sentence_of_names_is_shown_with_titles(said: str, shown: str) -> None:
    metrics_here = {("metric", "desk", "is_kind"): "Kind", ("metric", "", "kind"): "Kind enough"}
    others = {
        ("dataset", "", "fees"): "Fees",
        ("judge", "", "stern"): "Stern judge",
        ("judge", "", "stern_two"): "Sterner",
    }
    assert Titles({**metrics_here, **others}).in_text(said, "other", "desk") == shown


@pytest.mark.slow
@given(title=st.text(max_size=150), taken=st.sets(st.text(max_size=3)), what=st.sampled_from(["bot", "metric"]))
def test_any_title_has_a_valid_free_name(title: str, taken: set[str], what: str) -> None:
    name = name_for(title, taken, what)
    check_name(name, what)
    assert name not in taken
    other = name_for(title, {name, *taken}, what)
    check_name(other, what)
    assert other not in {name, *taken}


@given(st.text(max_size=LONGEST_TITLE))
def test_what_a_title_may_be_stays_as_it_is(title: str) -> None:
    try:
        checked = checked_title(title, "bot")
    except UserError:
        return
    assert checked_title(checked, "bot") == checked


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Kundenservice – Köln", "kundenservice_koln"),
        ("Straße 7", "strasse_7"),
        ("Łódź & Ærø", "lodz_aero"),
        ("会議ボット", "bot"),
        ("会議ボット v2", "v2"),
        ("２０２６", "bot_2026"),
        ("Is it polite?", "is_it_polite"),
        ("polite_tone", "polite_tone"),
        ("New", "new_2"),
        ("null", "null_2"),
        ("🙂", "bot"),
        ("a" * 300, "a" * 60),
    ],
)
def test_names_are_readable(title: str, name: str) -> None:
    assert name_for(title, (), "bot") == name


@pytest.mark.parametrize(
    "title", [" ", "\u200b\u200d", "a\0b", "a\x1bb", "a" * (LONGEST_TITLE + 1), "abc\u202edcba", "${x}"]
)
def test_what_cannot_be_read_is_no_title(title: str) -> None:
    with pytest.raises(UserError, match=r"the (bot has no )?name"):
        checked_title(title, "bot")


def test_a_title_is_normalised() -> None:
    assert checked_title("  Ko\u0308ln \n Mitte ", "bot") == "Köln Mitte"


def test_titles_stay_as_typed_and_are_shown_for_names(space: Workspace) -> None:
    bot = bots.create_bot(space, "kaigi", RECORDED, title="会議ボット")
    metrics.create_metric(space, "kaigi", MetricDraft("polite", EXACT, title="Is it polite?"))
    metrics.create_metric(space, "kaigi", MetricDraft("other", {**EXACT, "name": "column"}, title="Other"))
    datasets.create_dataset(space, "fragen", title="Fragen – Köln")
    judges.create_judge(space, "strict", {"kind": "embedded"}, title="Strict one")
    projects.create_project(space, "shop", title="Ladengeschäft")
    assert (bot.title, metrics.get_metric(space, "kaigi", "polite").title) == ("会議ボット", "Is it polite?")
    shown = titles_of(space)
    assert shown.of("bot", "kaigi") == "会議ボット"
    assert (shown.of("metric", "polite", "kaigi"), shown.of("metric", "column", "kaigi")) == ("Is it polite?", "Other")
    assert (shown.of("metric", "polite"), shown.of("metric", "polite", "nobody")) == ("polite", "polite")
    assert (shown.of("dataset", "fragen"), shown.of("judge", "strict")) == ("Fragen – Köln", "Strict one")
    assert shown.of("project", "shop") == "Ladengeschäft"
    assert titles_of(space.in_project("shop")).of("bot", "kaigi") == "kaigi"


def test_scores_have_the_titles_of_the_bot_with_its_model_and_of_the_check(space: Workspace) -> None:
    bots.create_bot(space, "desk", RECORDED, title="Help desk")
    metrics.create_metric(space, "desk", MetricDraft("polite", EXACT, title="Is it polite?"))
    checks.create_check(space, CheckDraft("pounds", "string_matching", {"keyword": "pounds"}, "Names the currency"))
    checks.create_check(space, CheckDraft("euros", "string_matching", {"keyword": "euros"}))
    shown = titles_of(space)
    assert shown.of("metric", "polite", "desk:model-7b") == "Is it polite?"
    assert (shown.of("bot", "desk:model-7b"), shown.of("bot", "other:model-7b")) == ("Help desk", "other:model-7b")
    assert [shown.of("metric", name, "desk") for name in ("pounds", "pounds#2", "euros")] == [
        "Names the currency",
        "Names the currency 2",
        "euros",
    ]


def test_a_metric_without_a_title_does_not_get_that_of_a_check_of_its_name(space: Workspace) -> None:
    bots.create_bot(space, "desk", RECORDED)
    bots.create_bot(space, "shop", RECORDED)
    metrics.create_metric(space, "desk", MetricDraft("tone", EXACT))
    for name in ("tone", "coherence"):
        checks.create_check(space, CheckDraft(name, "string_matching", {"keyword": "please"}, f"A check of {name}"))
    shown = titles_of(space)
    assert (shown.of("metric", "tone", "desk:model-7b"), shown.of("metric", "tone", "shop")) == (
        "tone",
        "A check of tone",
    )
    assert shown.of("metric", "coherence", "desk") == "coherence"


def test_a_title_changes_without_the_name_and_a_renamed_bot_keeps_it(space: Workspace) -> None:
    bots.create_bot(space, "helper", RECORDED)
    assert bots.update_bot(space, "helper", 1, new_name="support").title == "support"  # it never had another one
    bot = bots.update_bot(space, "support", 2, title="Support  – Köln")
    assert (bot.name, bot.title) == ("support", "Support – Köln")
    assert bots.update_bot(space, "support", 3, new_name="helper").title == "Support – Köln"
    assert bots.update_bot(space, "helper", 4, description="d").title == "Support – Köln"


def test_two_do_not_have_one_title(space: Workspace) -> None:
    bots.create_bot(space, "one", RECORDED, title="Straße")
    bots.create_bot(space, "two", RECORDED)
    for refused in (
        lambda: bots.create_bot(space, "three", RECORDED, title="STRASSE"),
        lambda: bots.create_bot(space, "strasse", RECORDED),
        lambda: bots.update_bot(space, "two", 1, title="strasse"),
    ):
        with pytest.raises(TakenError, match="called 'Straße', with the name one") as taken:
            refused()
        assert taken.value.problems[0].where == "bot.title"
    with pytest.raises(TakenError, match="called 'rag'"):
        datasets.create_dataset(space, "mine", title="RAG")
    projects.create_project(space, "other")
    assert bots.create_bot(space.in_project("other"), "one", RECORDED, title="Straße").title == "Straße"
    assert bots.update_bot(space, "one", 1, title="strasse").title == "strasse"


def test_the_metrics_of_a_bot_have_different_titles(space: Workspace) -> None:
    bots.create_bot(space, "helper", RECORDED)
    drafts = [MetricDraft("a", EXACT, title="Same"), MetricDraft("b", EXACT, title="same")]
    with pytest.raises(TakenError, match="a and b are both called 'same'"):
        metrics.replace_metrics(space, "helper", drafts, {})
    metrics.replace_metrics(space, "helper", [drafts[0], MetricDraft("b", EXACT, title="Other")], {})
    swapped = [MetricDraft("a", EXACT, title="Other"), MetricDraft("b", {**EXACT, "title": "Same"})]
    found = metrics.replace_metrics(space, "helper", swapped, {"a": 1, "b": 1})
    assert [(one.title, "title" in one.definition) for one in found] == [("Other", False), ("Same", False)]
    kept = metrics.replace_metrics(
        space, "helper", [MetricDraft("a", EXACT), MetricDraft("b", EXACT)], {"a": 2, "b": 2}
    )
    assert [one.title for one in kept] == ["Other", "Same"]


def test_what_was_deleted_comes_back_with_its_title_unless_another_has_it(space: Workspace) -> None:
    bots.create_bot(space, "one", RECORDED, title="Köln")
    deleted = bots.delete_bot(space, "one", 1)
    bots.create_bot(space, "two", RECORDED, title="köln")
    with pytest.raises(TakenError, match="another bot called 'Köln'"):
        trash.restore(space, deleted)
    bots.update_bot(space, "two", 1, title="Bonn")
    trash.restore(space, deleted)
    assert bots.get_bot(space, "one").title == "Köln"


@pytest.mark.parametrize("name", sorted({*RESERVED, "null", "true", "inf"}))
def test_words_of_addresses_and_overrides_are_no_names(space: Workspace, name: str) -> None:
    with pytest.raises(UserError, match="cannot be a name"):
        bots.create_bot(space, name, RECORDED)


def test_files_may_have_titles(space: Workspace) -> None:
    check = "kind: check\nneeds: [answer]\nchecks: [{op: contains, value: x}]"
    files: dict[str, Any] = {"target/kaigi": "kind: recorded\ntitle: 会議", "dataset/q": "path: q.jsonl\ntitle: Fragen"}
    files |= {"metric/m": f"{check}\ntitle: Gleich?", "judge/j": "kind: embedded\ntitle: Rechner"}
    for name, text in files.items():
        file = space.root / "conf" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        group, _, key = name.partition("/")
        package = f"# @package {group}.{key}\n" if group in ("dataset", "metric") else ""
        file.write_text(f"{package}{text}\n", encoding="utf-8")
    assert bots.get_bot(space, "kaigi").title == "会議"
    assert {one.name: one.title for one in datasets.list_datasets(space)}["q"] == "Fragen"
    assert metrics.get_library(space, "m").title == "Gleich?"
    assert judges.get_judge(space, "j").title == "Rechner"
    with pytest.raises(UserError, match="must be a text"):
        bots.create_bot(space, "number", {**RECORDED, "title": 5})
    copied = bots.copy_bot(space, "kaigi", "copy")
    assert (copied.title, "title" in copied.config) == ("copy", False)
    assert titles_of(space).of("metric", "m") == "Gleich?"


def test_titles_of_several_projects_are_read_and_deleted_ones_have_none(space: Workspace) -> None:
    other = space.in_project(projects.create_project(space, "other").name)
    bots.create_bot(space, "helper", RECORDED, title="Hilfe")
    bots.create_bot(other, "helper", RECORDED, title="会議")
    found = titles_of_projects(space, ["default", "other", "other", "gone"])
    assert {name: titles.of("bot", "helper") for name, titles in found.items()} == {"default": "Hilfe", "other": "会議"}


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("How  much\nis it?", "How much is it?"),
        ("", "c0"),
        (None, "c0"),
        ("word " * 30, "word " * 17 + "…"),
        ("字" * 200, "字" * 88 + " …"),
        (f"See {'x' * 200}", f"See {'x' * 84} …"),
    ],
)
def test_a_case_is_called_by_the_first_words_of_its_question(question: str | None, title: str) -> None:
    assert case_title(question, "c0") == title
    assert len(title) <= LONGEST_CASE_TITLE


def test_metrics_without_a_title_in_the_project_have_that_of_their_run() -> None:
    titles = Titles({("metric", "desk", "kind"): "Is it kind?", ("metric", "", "plain"): "plain"})
    known = titles.with_run(["desk", "taught"], {"kind": "Kind once", "plain": "Plain words", "gone": "Was deleted"})
    found = [known.of("metric", name, "desk:model") for name in ("kind", "plain", "gone", "other")]
    assert found == ["Is it kind?", "Plain words", "Was deleted", "other"]
    assert known.of("metric", "kind", "taught") == "Kind once"
    assert known.of("metric", "gone", "another") == "gone"
