import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest

from evalflow.config.schema import MetricConfig
from evalflow.records import Context, Message
from evalflow.report.cases import BLOCK, ExplorerWriter, most_informative, script_json
from evalflow.report.html import write_reports
from evalflow.report.page import facts, judge_lines, title
from tests.manifests import manifest_of
from tests.report.outcomes import gate_outcome

EVIL = '</script><script>window.owned=1</script><img src=x onerror="window.owned=1"> \' <!-- {{ 7*7 }} \u2028'


class Page(HTMLParser):
    """Elements, script texts and visible text of a page, as a browser's parser sees them."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.scripts, self.text, self._in = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._in = tag
        if tag == "script":
            self.scripts.append([dict(attrs), ""])

    def handle_endtag(self, tag):
        self._in = None

    def handle_data(self, data):
        if self._in == "script":
            self.scripts[-1][1] += data
        else:
            self.text.append(data)

    def data(self, name):
        return next(json.loads(text) for attrs, text in self.scripts if attrs.get("id") == name)

    def lines(self):
        packed = [text for attrs, text in self.scripts if attrs.get("class") == "block"]
        blocks = [zlib.decompress(base64.b64decode(text, validate=True)).decode() for text in packed]
        return [[json.loads(line) for line in block.split("\n") if line] for block in blocks]


@pytest.fixture(name="evil", scope="module")
def _evil(make_run, make_case, tmp_path_factory):
    """A report in which every text that a stranger could write is an attack."""
    step = {"id": EVIL, "task": None, "items": [EVIL], "reply": [{"verdict": EVIL}], "probabilities": None, "reasks": 0}
    case = make_case(
        0,
        id=EVIL,
        messages=(Message(EVIL, EVIL), Message("user", EVIL)),
        answer=EVIL,
        reference=EVIL,
        contexts=(Context(EVIL, EVIL, EVIL),),
        tags=(EVIL,),
        vars={EVIL: EVIL, "nan": float("nan")},
    )
    cell = {
        "case_id": EVIL,
        "metric": EVIL,
        "judge": EVIL,
        "target": EVIL,
        "score": 0.2,
        "threshold": 0.5,
        "passed": False,
        "reason": EVIL,
        "value": json.dumps(EVIL),
        "steps": json.dumps([step]),
        "tags": [EVIL],
    }
    manifest = manifest_of(run_id=EVIL, judges={EVIL: {"nature": EVIL}}, overrides=[EVIL], git_commit=EVIL)
    matrix = {"dataset": "rag", "target": EVIL, "metric": EVIL, "judge": EVIL, "tag": None, "statistic": "confusion"}
    run = make_run(
        [case],
        [cell],
        manifest=manifest,
        metrics={EVIL: MetricConfig(kind="judge", description=EVIL)},
        details=[{**matrix, "labels": [EVIL, "b"], "rows": [[1, 2], [3, 4]]}, {**matrix, "statistic": EVIL, "x": EVIL}],
    )
    folder = tmp_path_factory.mktemp("evil")
    write_reports(folder, run)
    return (folder / "report.html").read_text(encoding="utf-8")


def test_untrusted_text_makes_no_element_and_no_script(evil):
    page = Page(evil)
    assert not [tag for tag, _ in page.elements if tag in ("img", "iframe", "object", "link", "base")]
    assert not [attrs for _, attrs in page.elements if any(name.startswith("on") for name in attrs)]
    assert [attrs.get("type") for attrs, _ in page.scripts] == [
        "application/json",
        "application/json",
        None,
        "text/plain",
    ]


def test_untrusted_text_arrives_whole(evil):
    page = Page(evil)
    ((case,),) = page.lines()
    assert case["messages"] == [[EVIL, EVIL], ["user", EVIL]]
    assert case["answers"][0]["scores"][0]["steps"][0]["items"] == [EVIL]
    assert case["vars"] == {EVIL: EVIL, "nan": "NaN"}
    assert page.data("index")[0][0] == EVIL
    assert page.data("legend")["series"][0]["metric"] == EVIL
    assert EVIL in "".join(page.text)


def test_nothing_but_the_pages_own_style_and_script_may_run(evil):
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', evil)
    policy = policy.replace("&#39;", "'")
    [style, *_] = re.findall(r"<style>(.*?)</style>", evil, re.DOTALL)
    [script, *_] = re.findall(r"<script>(.*?)</script>", evil, re.DOTALL)
    for kind, text in (("style", style), ("script", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert not re.findall(r'\s(?:style|onclick)="', evil)


def test_the_page_names_no_address_outside_itself(make_run, make_case, tmp_path):
    write_reports(tmp_path, make_run([make_case(0)], [{"case_id": "case-0", "score": 0.5}]))
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\s\"'<)]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert not re.findall(r"(?:src|href|url\(|@import)\s*=?\s*[\"']?(?!#)//", text)


def test_the_page_says_who_judged_and_shows_all_four_counts(make_run, make_case, tmp_path):
    cells = [{"case_id": "case-0", "score": 0.5}] + [
        {"case_id": f"case-{i}", "status": status} for i, status in enumerate(("undefined", "error", "skipped"), 1)
    ]
    write_reports(tmp_path, make_run([make_case(i) for i in range(4)], cells))
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    text = re.sub(r"\s+", " ", " ".join(page.text))
    # Over the page, the pictures and the cases.
    assert text.count("judge: embedded (text overlap, not an LLM), uncalibrated") == 3
    assert re.search(r"0\.500 .{0,40}0\.460 to 0\.540 4 1 1 1 1 – t", text)
    assert "3 not scored (1 undefined, 1 error, 1 skipped)" in text
    pictures = [attrs for tag, attrs in page.elements if tag == "svg" and attrs.get("role") == "img"]
    assert pictures
    assert all(attrs["aria-label"] for attrs in pictures)


def test_several_judges_are_told_once_and_what_means_rest_on_over_each_table(make_run, make_case, tmp_path):
    judges = {"a": {"nature": "an LLM"}, "b": {"nature": "text overlap"}}
    cells = [{"case_id": "case-0", "score": 0.5, "judge": judge} for judge in judges]
    manifest = manifest_of(judges=judges, datasets={"rag": {"cases": 3}}, asked={"rag": 1})
    write_reports(tmp_path, make_run([make_case(0)], cells, manifest=manifest))
    text = re.sub(r"\s+", " ", " ".join(Page((tmp_path / "report.html").read_text(encoding="utf-8")).text))
    assert text.count("judge: a (an LLM), uncalibrated judge: b (text overlap), uncalibrated") == 1
    assert text.count("judge: ") == 2
    assert text.count("not asked: 2 of 3 cases") == 3


def test_a_metric_with_a_title_has_its_grade_and_the_headline_if_a_gate_is_on_it(make_run, make_case, tmp_path):
    manifest = manifest_of(
        metrics={name: {"scale": (1, 5)} for name in ("tone", "style")},
        config={"metric": {"tone": {"title": "Friendly tone"}}},
    )
    cells = [{"case_id": "case-0", "score": 0.75, "metric": name} for name in ("style", "tone")]
    metrics = {name: MetricConfig(kind="judge", description="d") for name in ("tone", "style")}
    gate = gate_outcome(name="tone", passed=True, of_metric="tone")
    run = make_run([make_case(0)], cells, manifest=manifest, metrics=metrics, gates=[gate])
    write_reports(tmp_path, run)
    page, summary = (tmp_path / name for name in ("report.html", "summary.md"))
    assert Page(page.read_text(encoding="utf-8")).text.count("4.0/5") == 2
    lines = summary.read_text(encoding="utf-8").splitlines()
    assert [line.split("|")[1:4] for line in lines if "4.0/5" in line] == [
        [" style ", " 0.750 ", " 4.0/5 "],
        [" Friendly tone ", " 0.750 ", " 4.0/5 "],
    ]
    assert lines[2].startswith("**Friendly tone: 0.75 on average")


def test_people_read_the_title_of_a_metric_and_files_have_its_name(make_run, make_case, tmp_path):
    manifest = manifest_of(
        datasets={"rag": {"cases": 1}},
        metrics={"faithfulness": {}},
        config={"metric": {"faithfulness": {"title": "忠実か?"}}},
    )
    cells = [{"case_id": "case-0", "score": 0.5}]
    write_reports(tmp_path, make_run([make_case(0)], cells, manifest=manifest))
    texts = {name: (tmp_path / name).read_text(encoding="utf-8") for name in ("report.html", "summary.md")}
    page = Page(texts["report.html"])
    assert title(manifest) == "忠実か? on rag"
    assert ("Metrics", "忠実か?") in facts(manifest)
    assert [series["metric"] for series in page.data("legend")["series"]] == ["忠実か?"]
    assert list(page.data("legend")["metrics"]) == ["忠実か?"]
    assert not [words for words in page.text if "faithfulness" in words and "忠実か" not in words]
    assert "faithfulness" not in texts["summary.md"]
    assert "faithfulness" in (tmp_path / "results.csv").read_text(encoding="utf-8")


def test_index_and_details_of_a_case_stand_where_the_page_looks_for_them(make_run, make_case, tmp_path):
    n = 2 * BLOCK + 3
    cells = [{"case_id": f"case-{i}", "score": i / n, "threshold": 0.5, "passed": i / n >= 0.5} for i in range(n)]
    write_reports(tmp_path, make_run([make_case(i) for i in range(n)], cells))
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    index, legend, blocks = page.data("index"), page.data("legend"), page.lines()
    assert [len(block) for block in blocks] == [BLOCK, BLOCK, 3]
    at = BLOCK + 7
    case_id, dataset, preview, tags, cells = index[at]
    assert (case_id, legend["datasets"][dataset], preview, tags) == (
        f"case-{at}",
        "rag",
        f"What does rule {at} say?",
        [],
    )
    assert legend["series"][cells[0]]["metric"] == "faithfulness"
    assert (legend["states"][cells[1]], cells[2]) == ("passed", pytest.approx(at / n, rel=1e-3))
    details = blocks[at // legend["block"]][at % legend["block"]]
    assert details["answers"][0]["answer"] == f"Rule {at} says so."


def test_what_no_browser_could_open_is_left_out_and_said(make_run, make_case, tmp_path, monkeypatch):
    monkeypatch.setattr(ExplorerWriter.__init__, "__defaults__", (None, 1000))
    cells = [{"case_id": f"case-{i}", "score": 0.5} for i in range(9)]
    write_reports(tmp_path, make_run([make_case(i) for i in range(9)], cells))
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    shown = len(page.data("index"))
    assert 0 < shown < 9
    assert shown == sum(map(len, page.lines()))
    assert f"shows the first {shown} of 9 cases. A browser cannot show more." in " ".join("".join(page.text).split())


def test_a_page_of_too_many_cases_shows_the_worst_in_input_order_and_says_so(
    make_run, make_case, tmp_path, monkeypatch
):
    monkeypatch.setattr(most_informative, "__defaults__", (3, None))
    scores = [0.9, 0.2, 0.8, 0.1, None, 0.7]
    cells = [
        {"case_id": f"case-{i}", "score": score, "status": "error" if score is None else "scored"}
        for i, score in enumerate(scores)
    ]
    write_reports(tmp_path, make_run([make_case(i) for i in range(6)], cells))
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert [entry[0] for entry in page.data("index")] == ["case-1", "case-3", "case-4"]
    said = " ".join("".join(page.text).split())
    assert "shows 3 of 6 cases: those in which something failed" in said
    assert "A browser cannot show more" not in said
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 7


def test_junit_has_the_cases_of_the_page_and_says_how_many_scores_are_left_out(
    make_run, make_case, tmp_path, monkeypatch
):
    monkeypatch.setattr(most_informative, "__defaults__", (2, None))
    cells = [{"case_id": f"case-{i}", "threshold": 0.5, "score": i / 10, "passed": i >= 5} for i in (9, 8, 1, 7)]
    write_reports(tmp_path, make_run([make_case(i) for i in (9, 8, 1, 7)], cells))
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()[1]
    assert [case.get("name") for case in suite.findall("testcase")] == ["case-1", "case-7"]
    assert suite.get("tests") == "2"
    told = {one.get("name"): one.get("value") for one in suite.iter("property")}
    assert (told["left out"] or "").startswith("2 scores")


def test_a_run_without_cases_has_a_page(make_run, tmp_path):
    write_reports(tmp_path, make_run([], []))
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.data("index") == []
    assert (tmp_path / "cases.jsonl").read_text() == ""
    assert (tmp_path / "results.csv").read_text().startswith("dataset,case_id")


def test_lone_surrogates_do_not_stop_a_report(make_run, make_case, tmp_path):
    write_reports(tmp_path, make_run([make_case(0, answer="a\ud800b")], [{"case_id": "case-0", "score": 0.5}]))
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.lines()[0][0]["answers"][0]["answer"] == "a?b"
    assert json.loads((tmp_path / "cases.jsonl").read_text(encoding="utf-8"))["answer"] == "a?b"


def test_the_header_says_what_the_manifest_knows():
    manifest = manifest_of(
        started_at="2026-11-21T14:03:22+00:00",
        seconds=75.2,
        overrides=["dataset=rag", "metric=[a,b]"],
        datasets={"rag": {"cases": 1200}},
        metrics={"a": {}, "b": {}},
        requests=1234,
        cached=5,
        cost_usd=None,
        saved_usd=0.5,
        git_commit="0123456789abcdef+",
    )
    assert facts(manifest) == [
        ("Run", "r"),
        ("Started", "2026-11-21 14:03:22 UTC"),
        ("Time", "1 min 15 s"),
        ("Status", "done"),
        ("Dataset", "rag (1,200 cases)"),
        ("Target", "recorded"),
        ("Metrics", "a, b"),
        ("Requests", "1,234, 5 more from the cache"),
        ("Cost", "unknown"),
        ("Saved", "$0.5000"),
        ("Versions", "commit 0123456789 with changes"),
        ("Command", "python -m evalflow dataset=rag 'metric=[a,b]'"),
    ]
    assert title(manifest) == "a, b on rag"
    assert title(manifest_of()) == "r"


def test_a_judge_is_uncalibrated_until_a_certificate_says_otherwise():
    held = {
        "dataset": "rag",
        "n_labels": 40,
        "agreement": {"kappa": {"value": None}, "spearman": {"value": 0.61, "ci_low": 0.4, "ci_high": 0.8}},
        "bias": {"value": -0.0625},
        "stale": [],
        "run_id": "before",
    }
    metrics = {
        "faithfulness": {"judge": "a", "certificate": held},
        "coherence": {"judge": "a", "certificate": None},
        "tone": {"judge": "b", "certificate": {**held, "stale": ["its prompts"]}},
        "exact_match": {"judge": None},
        "relevance": {"judge": "c"},
    }
    judges = {"a": {"nature": "an LLM"}, "b": {}, "c": {"nature": "an LLM", "calibrated": True}}
    assert judge_lines(manifest_of(judges=judges, metrics=metrics)) == [
        "judge: a (an LLM), calibrated for faithfulness: Spearman 0.61 (0.40 to 0.80), bias -0.062, 40 labels on rag, "
        "of run before; "
        "uncalibrated for coherence",
        "judge: b, uncalibrated for tone (changed since it was labelled: its prompts)",
        "judge: c (an LLM), uncalibrated",
    ]
    assert judge_lines(manifest_of()) == ["judge: none (no metric needs one)"]


@pytest.mark.parametrize(
    ("agreement", "said"),
    [
        ({"spearman": {"value": 0.08, "ci_low": -0.25, "ci_high": 0.39}}, "Spearman 0.08 (-0.25 to 0.39), "),
        ({"kappa": {"value": 0.0}, "spearman": {"value": None}, "accuracy": {"value": 0.9}}, "kappa 0.00, "),
        ({"kappa": {"value": -0.5, "ci_low": -0.7, "ci_high": -0.2}}, "kappa -0.50 (-0.70 to -0.20), "),
        ({"kappa": {"value": None}, "accuracy": {"value": 0.9, "ci_low": 0.8, "ci_high": 0.97}}, ""),
    ],
)
def test_a_judge_is_not_called_calibrated_by_labels_that_show_no_agreement(agreement: dict[str, Any], said: str):
    held = {
        "dataset": "rag",
        "n_labels": 40,
        "agreement": agreement,
        "bias": {"value": -0.034},
        "stale": [],
        "run_id": "r",
    }
    manifest = manifest_of(judges={"a": {}}, metrics={"tone": {"judge": "a", "certificate": held}})
    [line] = judge_lines(manifest)
    assert line == f"judge: a, tone checked against 40 labels: no agreement shown, {said}bias -0.034, on rag"


def test_a_judges_line_has_the_titles_of_metric_and_dataset():
    agreement = {"kappa": {"value": None}, "spearman": {"value": 0.61, "ci_low": 0.4, "ci_high": 0.8}}
    held: dict[str, Any] = {"dataset": "rag", "n_labels": 40, "agreement": agreement, "bias": {"value": 0.1}}
    held |= {"stale": [], "run_id": "r"}
    titles = {"metric": {"tone": {"title": "Tone of voice"}}, "dataset": {"rag": {"title": "City questions"}}}
    metrics = {"tone": {"judge": "a", "certificate": held}}
    [line] = judge_lines(manifest_of(judges={"a": {}}, metrics=metrics, config=titles))
    assert "calibrated for Tone of voice: " in line
    assert "40 labels on City questions" in line


def test_the_title_of_a_run_has_those_of_metrics_and_datasets():
    titles = {"metric": {"tone": {"title": "Tone of voice"}}, "dataset": {"rag": {"title": "City questions"}}}
    assert title(manifest_of({"rag": {}}, {"tone": {}}, config=titles)) == "Tone of voice on City questions"


def test_judges_are_named_for_some_of_the_metrics_only():
    metrics = {"tone": {"judge": "a"}, "fit": {"judge": "b"}, "exact": {"judge": None}}
    manifest = manifest_of(judges={"a": {}, "b": {}}, metrics=metrics)
    assert [line[:8] for line in judge_lines(manifest)] == ["judge: a", "judge: b"]
    assert [line[:8] for line in judge_lines(manifest, ["fit"])] == ["judge: b"]
    assert judge_lines(manifest, ["exact"]) == ["judge: none (no metric needs one)"]


def test_grades_that_are_one_off_throughout_agree_by_weighted_kappa():
    agreement = {
        "kappa": {"value": 0.05, "ci_low": -0.05, "ci_high": 0.15},
        "kappa_weighted": {"value": 0.7, "ci_low": 0.5, "ci_high": 0.85},
    }
    held = {
        "dataset": "rag",
        "n_labels": 40,
        "agreement": agreement,
        "bias": {"value": None},
        "stale": [],
        "run_id": "r",
    }
    [line] = judge_lines(manifest_of(judges={"a": {}}, metrics={"tone": {"judge": "a", "certificate": held}}))
    assert line == "judge: a, calibrated for tone: weighted kappa 0.70 (0.50 to 0.85), 40 labels on rag"


def test_script_json_is_json_without_a_way_out():
    value = {"a": ["</script>", float("inf"), {"b": float("-inf")}], "c": 1.5}
    text = script_json(value)
    assert "<" not in text
    assert json.loads(text) == {"a": ["</script>", "Infinity", {"b": "-Infinity"}], "c": 1.5}


def test_gates_are_shown_with_what_became_of_them(make_run, make_case, tmp_path):
    common = {
        "of": "rag",
        "of_metric": "faithfulness",
        "limit": 0.8,
        "note": "",
        "basis": "",
        "message": "",
        "in_spite": "",
        "value": 0.9,
        "ci_low": 0.85,
        "ci_high": 0.95,
    }
    gates = [
        {**common, "name": "faithfulness mean >= 0.8", "passed": True},
        {**common, "name": EVIL, "passed": False, "of": EVIL},
        {**common, "name": "recall >= 0.8", "passed": None, "value": None, "ci_low": None, "note": "no scored case"},
    ]
    write_reports(tmp_path, make_run([make_case(0)], [], gates=gates))
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    outcomes = [attrs["class"] for tag, attrs in page.elements if attrs.get("class", "").startswith("outcome")]
    assert outcomes == ["outcome passed", "outcome failed", "outcome undecided"]
    limits = [attrs["x"] for tag, attrs in page.elements if attrs.get("class") == "limit"]
    assert limits == ["79.5", "79.5"]
    assert "no scored case" in "".join(page.text)
    assert "window.owned" not in "".join(script for attrs, script in page.scripts if not attrs.get("type"))


def test_gates_have_the_titles_of_their_metrics(make_run, make_case, tmp_path):
    config = {"metric": {"faithfulness": {"title": "True to the source"}}}
    about = manifest_of(config=config, metrics={"faithfulness": {}})
    own = gate_outcome(
        metric="faithfulness",
        of_metric="faithfulness",
        name="faithfulness mean >= 0.8",
        of="rag · bot",
        message="faithfulness mean >= 0.8: 0.7 (rag · bot)",
        passed=False,
    )
    tagged = gate_outcome(
        metric="tag:fees",
        of_metric="faithfulness",
        name="tag:fees mean >= 0.8",
        of="faithfulness · rag · bot",
        message="tag:fees mean >= 0.8: 0.7 (faithfulness · rag · bot)",
        passed=True,
    )
    run = make_run([make_case(0)], [], gates=[own, tagged], manifest=about)
    write_reports(tmp_path, run)
    words = " ".join("".join(Page((tmp_path / "report.html").read_text(encoding="utf-8")).text).split())
    assert "1 of 2 gates failed: True to the source mean >= 0.8." in words
    assert "True to the source · rag · bot" in words
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8").replace("\\", "")
    assert "| True to the source mean >= 0.8: 0.7 (rag · bot) |" in summary
    assert "| tag:fees mean >= 0.8: 0.7 (True to the source · rag · bot) |" in summary
    assert "faithfulness mean >= 0.8: 0.7" in (tmp_path / "junit.xml").read_text(encoding="utf-8").replace("&gt;", ">")


def test_a_run_without_gates_has_no_section_for_them(make_run, make_case, tmp_path):
    write_reports(tmp_path, make_run([make_case(0)], []))
    assert 'id="gates"' not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_page_opens_with_its_sentence_and_its_numbers_and_ends_with_an_appendix(make_run, make_case, tmp_path):
    cells = [{"case_id": f"case-{i}", "score": i / 4, "passed": i > 1, "reason": f"reason {i}"} for i in range(4)]
    target = {"kind": "http", "title": "Library desk"}
    config = {"target": target, "dataset": {"rag": {"title": "Fees"}}}
    manifest = manifest_of(datasets={"rag": {"cases": 4}}, metrics={"faithfulness": {}}, config=config, run_id="the-id")
    gate = {
        "name": "faithfulness pass_rate >= 0.9",
        "of": "rag",
        "of_metric": "faithfulness",
        "passed": False,
        "value": 0.5,
        "ci_low": 0.3,
        "ci_high": 0.7,
        "limit": 0.9,
        "basis": "",
        "note": "",
        "message": "",
        "in_spite": "",
        "condition": ">= 0.9",
    }
    run = make_run([make_case(i) for i in range(4)], cells, manifest=manifest, gates=[gate])
    write_reports(tmp_path, run)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    body = text[text.index("<body>") :]
    parts = [
        "<h1>Library desk on Fees</h1>",
        "faithfulness · 4 cases",
        "50 % of answers pass",
        "Gate failed: faithfulness",
        'aria-label="Numbers"',
        'id="gates"',
        'id="explorer"',
        "<h2>Appendix</h2>",
        "All statistics",
        "the-id",
        "run.json",
    ]
    assert [body.index(part) for part in parts] == sorted(body.index(part) for part in parts)
    printed = body[body.index("Worst cases") : body.index('id="explorer"')]
    assert [printed.index(f"reason {i}") for i in range(3)] == sorted(printed.index(f"reason {i}") for i in range(3))
    assert "The 4 worst of 4 cases." in printed


def test_tags_have_a_row_each_and_metrics_a_column_each(make_run, make_case, tmp_path):
    cells = [{"case_id": "case-0", "metric": name, "score": 0.5} for name in ("tone", "facts")]
    run = make_run([make_case(0)], cells)
    tagged = run.summary.with_columns(tag=pl.lit("Fees"))
    write_reports(tmp_path, replace(run, summary=pl.concat([run.summary, tagged])))
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    text = re.sub(r"\s+", " ", " ".join(page.text))
    assert "By tag" in text
    assert "1 tag Tag n tone facts Fees 1 0.500 0.460 to 0.540 0.500 0.460 to 0.540 With 95 % intervals" in text
