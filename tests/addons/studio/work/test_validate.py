"""What no case could be asked with is refused; what some could is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalflow import prompts
from evalflow.addons.studio.work import bots, metrics
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.validate import check_metric
from evalflow.errors import UserError

pytestmark = pytest.mark.slow

NEEDS = ["question", "answer", "metadata", "vars", "expected"]
ASKED: dict[str, Any] = {"kind": "judge", "needs": NEEDS, "score": {"op": "value", "of": "grade", "field": "good"}}


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """On SQLite alone: what is tried or refused here is hardly stored, and `test_metrics.py` stores on both."""
    return f"sqlite:///{tmp_path / 'evalflow.db'}"


def asking(template: str) -> tuple[dict[str, Any], dict[str, str]]:
    step = {"id": "grade", "prompt": "own/grade.jinja", "returns": {"good": "bool"}}
    return {**ASKED, "steps": [step]}, {"own/grade.jinja": template}


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% for a in range(9999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "takes more than 3 s"),
        ("{{ 'x' * 99999999 }}", "more than 32,000,000 characters"),
        ("{{ question.nothing }}", "has no attribute 'nothing'"),
        ("{{ answer + 1 }}", "cannot be rendered"),
        ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "without end"),
    ],
)
def test_a_template_that_cannot_be_rendered_at_all_is_not_kept(
    space: Workspace, template: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "takes more" in message:
        monkeypatch.setattr(prompts, "SECONDS", 2)  # one more is given
    bots.create_bot(space, "helper", {"kind": "recorded"})
    with pytest.raises(UserError, match=message) as refused:
        metrics.create_metric(space, "helper", MetricDraft("own", *asking(template)))
    assert [problem.key for problem in refused.value.problems] == ["own/grade.jinja"]
    assert metrics.list_metrics(space, "helper") == []


@pytest.mark.parametrize(
    "template",
    [
        "{{ metadata.a.b[0] }} {{ metadata['c d'] | upper }} {{ metadata.get('x') }}",
        "{% if vars.count > 3 %}{{ vars.count * 2 }}{% endif %}{{ vars.price | round(2) }}",
        "{{ '%.2f' | format(vars.price) }}",
        "{% for name, value in metadata.prices.items() %}{{ name }}: {{ value }}{% endfor %}",
        "{{ expected | join(', ') }} {{ expected[0] }} {{ expected.label }} {{ vars | json }} {{ vars.x | tojson }}",
        "{{ vars.text.split(',')[0].strip() }} {{ -vars.x }} {{ vars.a ~ vars.b }}",
    ],
)
def test_what_some_data_could_be_rendered_with_is_kept(template: str) -> None:
    definition, texts = asking(template)
    assert check_metric("own", definition, texts) == (definition, texts)


def test_a_fault_of_syntax_names_the_template_and_no_folder(space: Workspace) -> None:
    with pytest.raises(UserError) as refused:
        check_metric("own", *asking("{% if %}"))
    (problem,) = refused.value.problems
    assert problem.where == "metric.own.steps[0].prompt (own/grade.jinja:1)"
    assert problem.key == "own/grade.jinja"
