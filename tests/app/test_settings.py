"""Settings that are refused for what they would leave behind."""

from __future__ import annotations

import pytest

from evalflow.app.settings import composed_settings
from evalflow.errors import UserError

CHOSEN = ("dataset=rag", "metric=coherence", "judge=vllm", "judge.model=m")


@pytest.mark.parametrize(
    ("override", "where"),
    [
        ("judge.base_url=http://user:hush@127.0.0.1:9/v1", "judge.base_url"),
        ("metric.coherence.judge={base_url: 'http://:hush@127.0.0.1:9/v1'}", "metric.coherence.judge.base_url"),
    ],
)
def test_a_password_in_plain_text_is_refused_and_not_repeated(override: str, where: str) -> None:
    with pytest.raises(UserError) as caught:
        composed_settings([*CHOSEN, override], None)
    assert [problem.where for problem in caught.value.problems] == [where]
    assert "${oc.env:" in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://user:${oc.env:MYPW}@127.0.0.1:9/v1", "http://user@127.0.0.1:9/v1", "http://127.0.0.1:9/a:b@c"]
)
def test_other_addresses_are_not(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYPW", "hush")
    assert composed_settings([*CHOSEN, f"judge.base_url='{url}'"], None).run.judge
