"""The kind `similarity`: a cosine of two fields, as a score."""

import pytest

from evalflow.errors import UserError
from evalflow.records import JudgeInfo


class Embedder:
    """Gives written vectors, in the place of a judge."""

    info = JudgeInfo(name="vectors", nature="", identity="")

    def __init__(self, *vectors):
        self.vectors = list(vectors)
        self.asked = []

    async def ask(self, ask):
        from evalflow.records import Reply

        self.asked.append(ask)
        if isinstance(self.vectors[0], Exception):
            raise self.vectors[0]
        return Reply(parsed=ask.reply_model(results=self.vectors), raw="")


@pytest.mark.parametrize(
    ("other", "score", "value"), [([3, 4], 0.6, 0.6), ([2, 0], 1.0, 1.0), ([-1, 0], 0.0, -1.0), ([0, 5], 0.0, 0.0)]
)
def test_the_score_is_the_cosine_and_never_negative(bench, other, score, value):
    judge = Embedder([1, 0], other)
    outcome = bench.score(bench.shipped("semantic_similarity"), judge)
    assert (outcome.status, outcome.score, outcome.value) == ("scored", pytest.approx(score), pytest.approx(value))
    assert judge.asked[0].items == ("Anna, in 1998.", "Anna wrote it in 1999.")
    assert (judge.asked[0].task, judge.asked[0].step) == ("embed", "embed")


def test_any_two_fields_can_be_compared(bench):
    values = {"kind": "similarity", "needs": ["question", "metadata.topic"], "field": "question"}
    metric = bench.build("mine", {**values, "against": "metadata.topic"})
    judge = Embedder([1, 0], [1, 0])
    bench.score(metric, judge, answer=bench.answer(metadata={"topic": "books"}))
    assert judge.asked[0].items == ("Who wrote it, and when?", "books")


def test_what_is_absent_is_skipped_and_what_is_blank_undefined(bench):
    metric = bench.shipped("semantic_similarity")
    assert bench.score(metric, Embedder([1]), case=bench.case(reference=None)).status == "skipped"
    assert bench.score(metric, Embedder([1]), answer=bench.answer(answer=" ")).status == "undefined"


def test_an_embedder_that_fails_is_an_error_and_no_score(bench):
    outcome = bench.score(bench.shipped("semantic_similarity"), Embedder(bench.error("timeout", "too slow")))
    assert (outcome.status, outcome.score, outcome.error_type) == ("error", None, "timeout")
    for vectors in (([1, 0], [1]), ([0, 0], [1, 0])):
        assert bench.score(bench.shipped("semantic_similarity"), Embedder(*vectors)).error_type == "malformed"


def test_fields_must_be_declared(bench):
    with pytest.raises(UserError) as error:
        bench.build("mine", {"kind": "similarity", "needs": ["answer"]})
    (problem,) = error.value.problems
    assert (problem.where, problem.hint) == ("metric.mine.against", "needs: [answer, reference]")
