"""Building a metric: everything that can be known without data is checked, and all of it said at once."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest
import yaml
from pydantic import ValidationError

from evalflow import doors
from evalflow.errors import UserError
from evalflow.metrics.registry import METRIC_KINDS, build_metric
from evalflow.prompts import Prompts

TWO_STEPS = """
kind: judge
needs: [answer]
steps:
  - {id: claims, prompt: claims.jinja, returns: {claims: {type: list, items: str}}}
  - id: verdicts
    prompt: verdicts.jinja
    one_per: claims.claims
    returns: {reason: str, verdict: {type: label, labels: ["yes", "no"]}}
score: {op: share, of: verdicts, field: verdict, equals: "yes"}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "claims.jinja").write_text("{{ answer }}")
    (tmp_path / "verdicts.jinja").write_text("{{ claims.claims }} {{ items }}")
    return tmp_path


def problems(folder, text, name="mine"):
    with pytest.raises(UserError) as error:
        build(folder, text, name)
    return error.value.problems


def build(folder, text, name="mine"):
    values = yaml.safe_load(text)
    return build_metric(name, METRIC_KINDS.config(values["kind"]).model_validate(values), Prompts([folder]))


def test_a_metric_is_two_files(bench, tmp_path):
    (tmp_path / "conf" / "metric").mkdir(parents=True)
    (tmp_path / "prompts").mkdir()
    yaml_file = tmp_path / "conf" / "metric" / "brevity.yaml"
    yaml_file.write_text(
        "# @package metric.brevity\nkind: rubric\ndescription: Short.\nneeds: [answer]\n"
        "prompt: brevity.jinja\nscale: {type: likert, min: 1, max: 3}\n"
    )
    (tmp_path / "prompts" / "brevity.jinja").write_text(
        "How short, {{ scale.min }}..{{ scale.max }}?\n{{ answer | fenced('answer') }}"
    )
    metric = build(tmp_path / "prompts", yaml_file.read_text(), "brevity")
    judge = bench.judge({"grade": {"reason": "fine", "score": 2}})
    assert bench.score(metric, judge).score == 0.5
    assert judge.asked[0].text.startswith("How short, 1..3?\n<answer id=")


def test_the_smallest_rubric_needs_no_prompt_of_its_own(bench):
    needs = ["question", "contexts", "reference", "metadata.tone", "vars.rules", "history", "answer"]
    metric = bench.build("m", {"kind": "rubric", "description": "Kind.", "needs": needs, "scale": "boolean"})
    case = bench.case(metadata={"tone": "dry"}, vars={"rules": {"max": 3}})
    judge = bench.judge({"grade": {"reason": "fine", "score": True}})
    assert bench.score(metric, judge, case=case).score == 1.0
    prompt = judge.asked[0].text
    assert all(part in prompt for part in ("Kind.", "dry", '"max": 3', "Anna, in 1998.", "Title: The book", "true if"))


def test_two_step_metric_builds(folder):
    assert build(folder, TWO_STEPS).prompts == ("claims.jinja", "verdicts.jinja")


def test_all_faults_are_named_at_once_with_their_keys(folder):
    (folder / "verdicts.jinja").write_text("{{ claims.claims }} {{ contexts }} {{ clams }}")
    text = TWO_STEPS.replace("one_per: claims.claims", "one_per: claims.clams").replace('equals: "yes"', "equals: ja")
    found = problems(folder, text)
    assert [p.where for p in found] == [
        "metric.mine.steps[1].one_per",
        "metric.mine.steps[1].prompt (verdicts.jinja:1)",
        "metric.mine.steps[1].prompt (verdicts.jinja:1)",
        "metric.mine.score.equals",
    ]
    assert "returns no field 'clams'; did you mean 'claims'?" in found[0].what
    assert "uses 'clams', which it does not get" in found[1].what
    assert found[1].hint == "did you mean 'claims'?"
    assert "uses 'contexts', which `needs` does not declare" in found[2].what
    assert found[2].hint == "needs: [answer, contexts]"


def test_columns_that_a_prompt_reads_are_named_with_those_that_a_case_may_lack(folder):
    prompt = "{{ claims.claims }} {{ vars.plan }} {% if vars.fee is defined %}{{ vars.fee }}{% endif %}"
    (folder / "verdicts.jinja").write_text(prompt)
    (found,) = problems(folder, TWO_STEPS)
    assert found.hint == "needs: [answer, vars.plan] and optional: [vars.fee]"


@pytest.mark.parametrize(
    ("old", "new", "where", "what"),
    [
        ("prompt: claims.jinja", "prompt: clams.jinja", "steps[0].prompt", "'clams.jinja' is in none of"),
        ("one_per: claims.claims", "one_per: verdicts", "steps[1].one_per", "does not name an earlier step"),
        ("one_per: claims.claims", "one_per: claims", "steps[1].one_per", "replies once and is not a list"),
        ("one_per: claims.claims", 'one_per: ""', "steps[1].one_per", "'' does not name an earlier step"),
        ("id: claims,", "id: claims, task: verify_claims,", "steps[0].against", "`against` is 'contexts', which"),
        ("id: claims,", "id: claims, source: referense,", "steps[0].source", "which is not a case field"),
        ("of: verdicts", "of: verdict", "score", "'verdict' does not name an earlier step"),
        ("needs: [answer]", "needs: [question]", "steps[0].prompt", "uses 'answer', which `needs` does not declare"),
    ],
)
def test_each_fault_has_its_key(folder, old, new, where, what):
    assert old in TWO_STEPS
    found = problems(folder, TWO_STEPS.replace(old, new))
    assert [p for p in found if (p.key or p.where) == f"metric.mine.{where}" and what in p.what], found


def test_two_steps_of_one_name(folder):
    found = problems(folder, TWO_STEPS.replace("id: verdicts", "id: claims"))
    assert ("metric.mine.steps[1].id", "there already is a step 'claims'") in [(p.where, p.what) for p in found]


def test_a_template_that_does_not_parse_names_file_and_line(folder):
    (folder / "claims.jinja").write_text("fine\n{{ answer ")
    found = problems(folder, TWO_STEPS)
    assert "metric.mine.steps[0].prompt" in found[0].where
    assert "claims.jinja:2" in found[0].where


def test_an_included_template_is_looked_for_and_looked_at(folder):
    (folder / "claims.jinja").write_text('{% include "piece.jinja" %}')
    assert "'piece.jinja', which claims.jinja includes, is in none of" in problems(folder, TWO_STEPS)[0].what
    (folder / "piece.jinja").write_text("{{ reference }}")
    assert "uses 'reference'" in problems(folder, TWO_STEPS)[0].what


def test_a_rubric_s_prompt_has_a_key_of_its_own(folder):
    text = "{kind: rubric, needs: [answer], prompt: nowhere.jinja, scale: boolean}"
    assert problems(folder, text)[0].where == "metric.mine.prompt"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("id: verdicts", "id: answer", "is already a template variable"),
        ("id: verdicts", "id: Verdicts", "must be lower-case letters"),
        ('["yes", "no"]', "[yes, no]", "YAML reads an unquoted true/yes/on as a boolean; put it in quotes"),
        ("needs: [answer]", "needs: [anser]", "unknown case field 'anser'"),
        ("kind: judge", "kind: judge\ntreshold: 0.5", "Extra inputs are not permitted"),
        ("kind: judge", "kind: judge\nthreshold: 1.5", "less than or equal to 1"),
        ("kind: judge", "kind: judge\nweighting: votes", "'probability'"),
    ],
)
def test_what_the_configuration_model_refuses(folder, old, new, message):
    with pytest.raises(ValidationError, match=message):
        build(folder, TWO_STEPS.replace(old, new))


def test_an_unknown_kind():
    with pytest.raises(UserError, match=r"no metric kind 'rubrik'\n  hint: did you mean 'rubric'"):
        METRIC_KINDS.config("rubrik")


def entry(name, value):
    return EntryPoint(name, value, "evalflow.metrics")


def plugged(monkeypatch, *entries):
    monkeypatch.setattr(doors, "installed_points", lambda: EntryPoints(entries))


def test_other_packages_add_kinds_through_the_same_door(monkeypatch):
    plugged(monkeypatch, entry("verse", "evalflow.metrics.kinds.judge:RubricMetric"))
    assert METRIC_KINDS.config("verse") is METRIC_KINDS.config("rubric")


def test_two_claims_to_one_kind_are_an_error(monkeypatch):
    plugged(monkeypatch, entry("rubric", "theirs:Rubric"), entry("verse", "a:A"), entry("verse", "b:B"))
    with pytest.raises(UserError) as error:
        METRIC_KINDS.config("judge")
    assert [p.what for p in error.value.problems] == [
        "the metric kind 'rubric' is defined by evalflow and by theirs:Rubric",
        "the metric kind 'verse' is defined by a:A and by b:B",
    ]


def test_a_kind_that_cannot_be_loaded(monkeypatch):
    plugged(monkeypatch, entry("verse", "evalflow_no_such_module:Verse"))
    with pytest.raises(
        UserError,
        match="cannot be loaded from evalflow_no_such_module:Verse: No module named",
    ):
        METRIC_KINDS.config("verse")
