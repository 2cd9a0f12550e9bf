from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, create_model

from evalflow.addons.embedded.evidence import weigh, windows
from evalflow.addons.embedded.judge import EmbeddedJudge, weigh_all
from evalflow.calls.cache import Cache
from evalflow.calls.client import CallSession
from evalflow.config.judges import EmbeddedJudgeConfig
from evalflow.errors import JudgeError
from evalflow.protocols import Judge
from evalflow.records import Ask, Context, Reply, Usage

CONTEXT = Context(text="The museum opened in 1987. It is closed on Mondays. Entry costs 12 euros.")


class Claims(BaseModel):
    claims: list[str]


class Verdict(BaseModel):
    reason: str
    verdict: Literal["supported", "contradicted", "not_in_context"]


class NumberedVerdict(Verdict):
    number: int


class Verdicts(BaseModel):
    results: list[NumberedVerdict]


class Grade(BaseModel):
    reason: str
    grade: float = Field(ge=0, le=1)


class NumberedGrade(Grade):
    number: int


class Grades(BaseModel):
    results: list[NumberedGrade]


@pytest.fixture(scope="module")
def judge() -> Iterator[EmbeddedJudge]:
    made = EmbeddedJudge(EmbeddedJudgeConfig(kind="embedded"))
    yield made
    asyncio.run(made.close())


def ask(judge: Judge, task: str | None, model: type[BaseModel], items: Any = None, **variables: Any) -> Reply:
    asked = Ask(metric="m", step="s", task=task, messages=(), reply_model=model, variables=variables, items=items)
    return asyncio.run(judge.ask(asked))


def verify(judge: Judge, items: Any, against: Any = (CONTEXT,), model: type[BaseModel] = Verdicts) -> Reply:
    return ask(judge, "verify_claims", model, items=items, against=against)


def test_it_says_what_it_is(judge: EmbeddedJudge) -> None:
    assert judge.info.name == "embedded"
    assert judge.info.nature == "text overlap, sentence similarity and facts, not an LLM"
    assert judge.info.weighted
    assert not judge.info.calibrated
    named = EmbeddedJudge(EmbeddedJudgeConfig(kind="embedded", name="mine", calibrated=True))
    assert (named.info.name, named.info.calibrated) == ("mine", True)


def test_claims_are_the_sentences_that_state_something(judge: EmbeddedJudge) -> None:
    reply = ask(judge, "extract_claims", Claims, source="Yes! It opened in 1987. Entry is free.")
    assert reply.parsed == Claims(claims=["It opened in 1987.", "Entry is free."])
    assert reply.probabilities is None


def test_claims_come_from_contexts_too_under_whatever_name(judge: EmbeddedJudge) -> None:
    facts = create_model("Facts", facts=(list[str], ...))
    reply = ask(judge, "extract_claims", facts, source=(CONTEXT, Context(text="It has a garden.")))
    assert reply.parsed.model_dump()["facts"][-2:] == ["Entry costs 12 euros.", "It has a garden."]


def test_an_empty_text_has_no_claims(judge: EmbeddedJudge) -> None:
    assert ask(judge, "extract_claims", Claims, source="").parsed == Claims(claims=[])


def test_each_claim_gets_a_verdict_a_reason_and_a_graded_probability(judge: EmbeddedJudge) -> None:
    reply = verify(judge, ("It is closed on Mondays.", "Dinosaurs roam the museum cellar."))
    supported, absent = reply.parsed.model_dump()["results"]
    assert supported["verdict"] == "supported"
    assert 'closest passage: "The museum opened in 1987.' in supported["reason"]
    assert absent["verdict"] == "not_in_context"
    assert "words not in the closest passage: Dinosaurs, roam, cellar" in absent["reason"]
    assert reply.probabilities is not None
    assert 0 < reply.probabilities[1]["verdict"]["supported"] < 0.5 < reply.probabilities[0]["verdict"]["supported"] < 1


def test_the_least_supported_claim_lowers_the_others(judge: EmbeddedJudge) -> None:
    true, false = "It is closed on Mondays.", "Dinosaurs roam the museum cellar."
    (alone,) = verify(judge, (true,)).probabilities or []
    (least,) = verify(judge, (false,)).probabilities or []
    beside, still = verify(judge, (true, false)).probabilities or []
    assert still == least
    assert beside["verdict"]["supported"] == pytest.approx(
        0.75 * alone["verdict"]["supported"] + 0.25 * least["verdict"]["supported"]
    )
    reason = verify(judge, (true, false)).parsed.model_dump()["results"][0]["reason"]
    assert reason.startswith("support 0.83 (1.00 without the least supported claim); every content word")


def test_a_differing_fact_leaves_a_quarter_and_is_named(judge: EmbeddedJudge) -> None:
    (result,) = verify(judge, ("It opened in 1978.",)).parsed.model_dump()["results"]
    assert result["verdict"] == "not_in_context"
    assert result["reason"].startswith("says 1978, the context says 1987; support 0.12")
    (chances,) = verify(judge, ("It opened in 1978.",)).probabilities or []
    (evidence,) = weigh_all(["It opened in 1978."], windows([CONTEXT.text]), judge.similarities)
    assert chances["verdict"]["supported"] == pytest.approx(0.25 * evidence.support)


def test_the_claims_of_an_answer_are_embedded_together_with_their_passages() -> None:
    asked: list[Sequence[tuple[str, Sequence[str]]]] = []

    def similarities(pairs: Sequence[tuple[str, Sequence[str]]]) -> list[float]:
        asked.append(pairs)
        return [0.5 for _ in pairs]

    claims = ["The museum opened in 1987.", "?!", "Entry costs 12 euros."]
    evidence = weigh_all(claims, windows([CONTEXT.text]), similarities)
    assert [one.support for one in evidence] == [(3 + 0.5) / 4, 0.0, (3 + 0.5) / 4]
    assert asked == [[(claims[0], evidence[0].sentences), (claims[2], evidence[2].sentences)]]


def test_each_text_is_compared_with_its_own_others(judge: EmbeddedJudge) -> None:
    cat, tax = "A cat sleeps.", "The tax return is due in May."
    found = judge.similarities([(cat, [tax, cat]), (tax, [cat])])
    assert found == [pytest.approx(1, abs=1e-5), judge.similarities([(cat, [tax])])[0]]
    assert found[1] < 0.5


def test_what_the_question_says_is_no_difference(judge: EmbeddedJudge) -> None:
    claim = ("For 2 people, entry costs 12 euros each.",)
    with_it = ask(judge, "verify_claims", Verdicts, items=claim, against=CONTEXT, question="What do 2 people pay?")
    assert "says 2, which is not in the context" in verify(judge, claim).raw
    assert "says" not in with_it.raw


def test_a_reply_costs_nothing_and_carries_its_own_json(judge: EmbeddedJudge) -> None:
    reply = verify(judge, ("It opened in 1987.",))
    assert (reply.usage, reply.cost_usd, reply.reasks) == (Usage(), 0.0, 0)
    assert Verdicts.model_validate_json(reply.raw) == reply.parsed
    assert reply.identity == judge.info.identity
    assert reply.latency_s is not None
    assert reply.latency_s > 0


@pytest.mark.parametrize(
    "item",
    [
        "Entry costs 12 euros.",
        Context(text="Entry costs 12 euros."),
        {"claim": "Entry costs 12 euros.", "source": "answer"},
        {"sentence": "Entry costs 12 euros.", "number": 3},
        create_model("Fact", fact=(str, ...))(fact="Entry costs 12 euros."),
    ],
)
@pytest.mark.parametrize("against", [CONTEXT.text, CONTEXT, [CONTEXT], (CONTEXT.text,)])
def test_claims_and_texts_come_in_several_shapes(judge: EmbeddedJudge, item: Any, against: Any) -> None:
    reply = verify(judge, (item,), against)
    assert reply.probabilities == [{"verdict": {"supported": 1.0, "not_in_context": 0.0}}]


def test_without_contexts_nothing_is_supported(judge: EmbeddedJudge) -> None:
    reply = verify(judge, ("It opened in 1987.",), against=())
    assert reply.parsed.model_dump()["results"] == [
        {"reason": "there is nothing to compare it with", "verdict": "not_in_context", "number": 1}
    ]


def test_no_claims_get_no_verdicts(judge: EmbeddedJudge) -> None:
    assert verify(judge, ()).parsed == Verdicts(results=[])


def test_similarity_lifts_a_paraphrase_and_keeps_a_copy_at_one(judge: EmbeddedJudge) -> None:
    paraphrase = "The doors stay shut at the start of the week."
    (lifted,) = verify(judge, (paraphrase,)).probabilities or []
    (copied,) = verify(judge, ("Entry costs 12 euros.",)).probabilities or []
    assert lifted["verdict"]["supported"] > weigh(paraphrase, windows([CONTEXT.text])).support
    assert copied["verdict"]["supported"] == pytest.approx(1, abs=1e-5)


def test_a_negation_is_not_called_supported(judge: EmbeddedJudge) -> None:
    (result,) = verify(judge, ("The museum is not closed on Mondays.",)).parsed.model_dump()["results"]
    assert result["verdict"] == "not_in_context"
    assert result["reason"].startswith("says “not … closed”, the context says closed")


def test_blind_spot_another_word_for_the_fact_is_called_supported(judge: EmbeddedJudge) -> None:
    reply = verify(judge, ("The museum burned in 1987.",))
    assert reply.parsed.model_dump()["results"][0]["verdict"] == "supported"


def test_blind_spot_swapped_names_are_called_supported(judge: EmbeddedJudge) -> None:
    reply = verify(judge, ("Carl sued Anna in 1987.",), against="Anna sued Carl in 1987.")
    assert reply.parsed.model_dump()["results"][0]["verdict"] == "supported"


def test_relevance_of_an_answer_and_of_items(judge: EmbeddedJudge) -> None:
    question = "When does the museum open?"
    on_topic = ask(judge, "rate_relevance", Grade, question=question, answer="It opens at nine.")
    off_topic = ask(judge, "rate_relevance", Grade, question=question, answer="Bananas contain potassium.")
    items = (CONTEXT, "Bananas contain potassium.")
    each = ask(judge, "rate_relevance", Grades, items=items, question=question)
    grades = [grade["grade"] for grade in each.parsed.model_dump()["results"]]
    assert on_topic.parsed.model_dump()["grade"] > off_topic.parsed.model_dump()["grade"]
    assert grades[0] > grades[1] == off_topic.parsed.model_dump()["grade"]
    assert each.probabilities is not None
    assert len(each.probabilities) == 2


def test_equal_questions_get_equal_replies_under_concurrency(judge: EmbeddedJudge) -> None:
    asked = Ask(
        metric="m",
        step="s",
        task="verify_claims",
        messages=(),
        reply_model=Verdicts,
        variables={"against": CONTEXT},
        items=("It opened in 1988.", "Entry costs 12 euros."),
    )

    async def many() -> list[Reply]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(judge.ask(asked)) for _ in range(8)]
        return [task.result() for task in tasks]

    replies = asyncio.run(many())
    assert all(reply.probabilities == replies[0].probabilities for reply in replies)


@pytest.mark.parametrize(
    ("task", "model", "items", "variables", "names"),
    [
        (None, Grade, None, {}, "a free prompt"),
        ("write_poem", Grade, None, {}, "'write_poem'"),
        ("extract_claims", Grade, None, {"source": "x"}, "one list of str"),
        ("extract_claims", Claims, None, {}, "needs the variable source"),
        ("verify_claims", Verdicts, None, {"against": "x"}, "needs `one_per`"),
        ("verify_claims", Verdicts, ("x",), {}, "needs the variable against"),
        ("verify_claims", Verdicts, (7,), {"against": "x"}, "no text to compare in 7"),
        ("verify_claims", Verdicts, ({"a": "x", "b": "y"},), {"against": "x"}, "no text to compare"),
    ],
)
def test_what_it_is_not_made_for_is_refused_by_name(
    judge: EmbeddedJudge, task: str | None, model: type[BaseModel], items: Any, variables: dict[str, Any], names: str
) -> None:
    with pytest.raises(JudgeError, match=names) as refused:
        ask(judge, task, model, items, **variables)
    assert refused.value.error_type == "unsupported"
    assert str(refused.value).startswith("m, step s: ")


def test_refusals_can_be_had_before_a_run(judge: EmbeddedJudge) -> None:
    assert judge.info.explain_refusal("verify_claims") is None
    assert judge.info.explain_refusal("rate_relevance") is None
    assert "not a language model" in (judge.info.explain_refusal(None) or "")


def test_making_one_loads_nothing_heavy() -> None:
    code = (
        "import sys; from evalflow.config.judges import EmbeddedJudgeConfig;"
        "from evalflow.addons.embedded.judge import EmbeddedJudge;"
        "EmbeddedJudge(EmbeddedJudgeConfig(kind='embedded')).tasks;"
        "assert not {'numpy', 'onnxruntime', 'tokenizers', 'openai', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("passage", "there", "other"),
    [
        ("图书馆九点开门。周一休息。门票十二元。", "周一休息。", "图书馆没有停车场和餐厅。"),
        ("図書館は九時に開きます。月曜日は休みです。", "月曜日は休みです。", "駐車場とカフェもあります。"),
        ("ห้องสมุดเปิดเก้าโมง วันจันทร์หยุด", "ห้องสมุดเปิดเก้าโมง", "มีที่จอดรถฟรีสำหรับผู้อ่าน"),
        ("도서관은 아홉 시에 엽니다. 월요일은 쉽니다.", "월요일은 쉽니다.", "주차장과 카페가 있습니다."),
        ("पुस्तकालय नौ बजे खुलता है। सोमवार को बंद रहता है।", "सोमवार को बंद रहता है।", "यहाँ गाड़ी खड़ी कर सकते हैं।"),
        ("تفتح المكتبة في التاسعة. تغلق يوم الاثنين.", "تغلق يوم الاثنين.", "يوجد موقف للسيارات ومقهى."),
    ],
)
def test_a_sentence_of_the_passage_is_supported_in_any_script(
    judge: EmbeddedJudge, passage: str, there: str, other: str
) -> None:
    reply = verify(judge, [there], against=(Context(text=passage),))
    assert reply.probabilities
    assert reply.probabilities[0]["verdict"]["supported"] > 0.9
    reply = verify(judge, [other], against=(Context(text=passage),))
    assert reply.probabilities
    assert reply.probabilities[0]["verdict"]["supported"] < 0.6


def test_a_kept_finding_answers_again_and_for_another_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = ["The museum opened in 1987.", "Entry is free."]

    def replies() -> list[tuple[Any, Any]]:
        with closing(Cache(tmp_path / "cache.db")) as cache:
            judge = EmbeddedJudge(EmbeddedJudgeConfig(kind="embedded"), "", CallSession(computed=cache))
            grades = verify(judge, claims, model=Grades)
            rated = ask(judge, "rate_relevance", Grade, question="When did it open?", answer="In 1987.")
            found = [(one.raw, one.probabilities) for one in (verify(judge, claims), grades, rated)]
            asyncio.run(judge.close())
        return found

    plain = EmbeddedJudge(EmbeddedJudgeConfig(kind="embedded"))
    first, alone = replies(), verify(plain, claims)
    asyncio.run(plain.close())
    assert first[0] == (alone.raw, alone.probabilities)
    monkeypatch.setattr("evalflow.addons.embedded.judge.judge_claims", None)
    monkeypatch.setattr(EmbeddedJudge, "similarities", None)
    assert replies() == first
