"""Titles instead of names: one rule for comparisons, rankings and sweeps."""

from __future__ import annotations

from evalflow.report.comparison import Comparison
from evalflow.report.page import facts
from evalflow.report.titles import ShownTitles
from tests.manifests import manifest_of

DATASETS = {"fees": {"cases": 1}}
METRICS = {"tone": {}}
OLD = {"dataset": {"fees": {"title": "Old fees"}}, "metric": {"tone": {"title": "Old tone"}}}
NEW = {"dataset": {"fees": {"title": "Fees"}}, "metric": {"tone": {"title": "Tone of\nvoice"}}}
RUNS = [manifest_of(DATASETS, METRICS, config=config) for config in (OLD, NEW, {})]


def test_titles_are_those_of_the_last_run_that_has_some() -> None:
    titles = ShownTitles.of(RUNS)
    assert (titles.dataset("fees"), titles.metric("tone")) == ("Fees", "Tone of voice")
    assert (titles.dataset("other"), titles.metric("other")) == ("other", "other")


def test_a_comparison_shows_the_same_titles_unless_it_is_given_others() -> None:
    found = Comparison(dict(zip("abc", RUNS, strict=True)), [], "holm", None, [], [], {})
    assert (found.shown.dataset("fees"), found.shown.metric("tone"), found.named("tone")) == (
        "Fees",
        "Tone of voice",
        "“Tone of voice”",
    )
    renamed = Comparison(found.runs, [], "holm", None, [], [], {}, metric_titles={"tone": "Now"})
    assert renamed.shown.metric("tone") == "Now"


def test_the_facts_of_a_run_have_titles_and_the_name_of_its_target() -> None:
    config = {**NEW, "target": {"kind": "openai", "title": "Desk"}}
    known = dict(facts(manifest_of(DATASETS, METRICS, target="openai:m", config=config)))
    assert (known["Dataset"], known["Target"]) == ("Fees (1 case)", "Desk, openai:m")
