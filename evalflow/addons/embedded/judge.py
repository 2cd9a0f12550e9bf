"""The embedded judge: word overlap, sentence similarity and facts. No key, no network, no language model."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError

from evalflow.addons.embedded import minilm
from evalflow.addons.embedded.evidence import Evidence, Similarities, Window, states_something, weigh, windows
from evalflow.addons.embedded.facts import FactCheck
from evalflow.errors import JudgeError
from evalflow.llm.reader import item_type
from evalflow.records import EVIDENCE_TASKS, NUMBER, JudgeInfo, Reply, Usage, numbered_results
from evalflow.values.segments import sentences

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from evalflow.calls.client import CallSession
    from evalflow.config.judges import EmbeddedJudgeConfig
    from evalflow.records import Ask, Distribution


NEUTRAL_LABEL = "not_in_context"
CONTRADICTION = "contradict"  # labels with this prefix are never chosen, since word overlap cannot show a contradiction


class UnsupportedStepError(Exception):
    """The embedded judge cannot handle the shape of a step's variables or reply."""


@dataclass(frozen=True, slots=True)
class Support:
    """The degree of support (0..1), and the reason in words."""

    support: float
    reason: str


def fill(model: type[BaseModel], finding: Support, *, listed: bool = False) -> tuple[dict[str, object], Distribution]:
    """The fields of a reply (text fields get the reason), and the probability of each value of its only verdict."""
    reply: dict[str, object] = {}
    verdicts: dict[str, Mapping[object, float]] = {}
    for name, field in model.model_fields.items():
        if listed and name == NUMBER:
            continue
        if field.annotation is str:
            reply[name] = finding.reason
        else:
            verdicts[name] = chances = _chances(name, field, finding.support)
            reply[name] = max(chances, key=lambda value: chances[value])
    if len(verdicts) != 1:
        raise UnsupportedStepError(
            f"a reply needs exactly one verdict, this one has {len(verdicts)}: {sorted(verdicts)}"
        )
    return reply, verdicts


def list_of_text(model: type[BaseModel]) -> str:
    """The name of the model's only field, a list of strings."""
    fields = [(name, item_type(field)) for name, field in model.model_fields.items()]
    if len(fields) != 1 or fields[0][1] is not str:
        raise UnsupportedStepError(f"a reply to extract_claims is one list of str, not {sorted(model.model_fields)}")
    return fields[0][0]


def _chances(name: str, field: FieldInfo, support: float) -> Mapping[object, float]:
    kind = field.annotation
    if get_origin(kind) is Literal:
        labels = get_args(kind)
        return {labels[0]: support, _other_label(name, labels): 1 - support}
    if kind is bool:
        return {True: support, False: 1 - support}
    if kind is int or kind is float:
        return _number(name, field, support, whole=kind is int)
    raise UnsupportedStepError(f"it cannot fill the field {name!r}: {kind!r}")


def _other_label(name: str, labels: Sequence[object]) -> object:
    """The label for unsupported claims: a missing fact, since overlap never shows a contradiction."""
    if NEUTRAL_LABEL in labels[1:]:
        return NEUTRAL_LABEL
    others = [label for label in labels[1:] if not str(label).lower().startswith(CONTRADICTION)]
    if not others:
        raise UnsupportedStepError(f"no label of {name!r} says that something is merely absent: {list(labels)}")
    return others[-1]


def _number(name: str, field: FieldInfo, support: float, whole: bool) -> Mapping[object, float]:
    """A distribution over `min..max` whose mean is `support` on that scale."""
    low, high = _bound(field, "ge"), _bound(field, "le")
    if low is None or high is None:
        raise UnsupportedStepError(f"the number {name!r} needs a min and a max")
    value = low + support * (high - low)
    if not whole:
        return {value: 1.0}
    below = math.floor(value)
    above = value - below
    return {below: 1 - above, below + 1: above} if above else {below: 1.0}


def _bound(field: FieldInfo, name: str) -> float | None:
    return next((getattr(part, name) for part in field.metadata if hasattr(part, name)), None)


NATURE = "text overlap, sentence similarity and facts, not an LLM"
VERSION = 3  # increment with every change that can change a reply
# Chosen on half of the labelled data; docs/embedded-judge.md says how.
LEFT_BY_A_DIFFERENCE = 0.25
SHARE_OF_THE_LEAST = 0.25
MAX_WORKERS = 4
PASSAGE_CHARACTERS = 200
TEXT_KEYS = ("text", "claim", "statement", "fact")

Filled = tuple[dict[str, object], Sequence["Distribution"] | None]


class EmbeddedJudge:
    """Scores by how far a claim's words, and its meaning as an embedding, occur in a context."""

    tasks = EVIDENCE_TASKS

    def __init__(self, config: EmbeddedJudgeConfig, name: str = "", session: CallSession | None = None) -> None:
        self._minilm = minilm.shared()
        self._kept = session.computed if session else None
        decisive = f"embedded {VERSION}; {self._minilm.identity}"
        self.info = JudgeInfo(
            name=name or config.name or "embedded",
            nature=NATURE,
            identity=hashlib.sha256(decisive.encode()).hexdigest()[:16],
            calibrated=config.calibrated,
            remote=False,
            weighted=True,  # its support is graded
            tasks=self.tasks,
            limits="the embedded judge is not a language model",
            scripts=minilm.SCRIPTS,
        )
        # Threads, because scoring is CPU-bound and must not block the event loop.
        self._workers = ThreadPoolExecutor(min(MAX_WORKERS, os.cpu_count() or 1), thread_name_prefix="embedded-judge")
        self._answers: Mapping[str, Callable[[Ask], Filled]] = {
            "extract_claims": _extract,
            "verify_claims": self._verify,
            "rate_relevance": self._rate,
        }

    async def ask(self, ask: Ask) -> Reply:
        """Answer one of its tasks, or raise JudgeError; the same question always gets the same reply."""
        refusal = self.info.explain_refusal(ask.task)
        if refusal:
            raise JudgeError("unsupported", f"{ask.metric}, step {ask.step}: {refusal}")
        return await asyncio.get_running_loop().run_in_executor(self._workers, self._reply, ask)

    async def close(self) -> None:
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _reply(self, ask: Ask) -> Reply:
        started = time.perf_counter()
        try:
            content, probabilities = self._answers[cast(str, ask.task)](ask)
            parsed = ask.reply_model.model_validate(content)
        except (UnsupportedStepError, ValidationError) as error:
            raise JudgeError(
                "unsupported", f"{ask.metric}, step {ask.step}: the embedded judge cannot answer: {error}"
            ) from error
        return Reply(
            parsed=parsed,
            raw=parsed.model_dump_json(),
            probabilities=probabilities,
            requests=0,
            usage=Usage(),
            cost_usd=0.0,
            latency_s=time.perf_counter() - started,
            identity=self.info.identity,
        )

    def _verify(self, ask: Ask) -> Filled:
        if ask.items is None:
            raise UnsupportedStepError("verify_claims needs `one_per`, the claims to verify")
        passages, question = _texts(_variable(ask, "against")), "\n".join(_texts(ask.variables.get("question")))
        claims = [text_of(item) for item in ask.items]

        def judge() -> list[Support]:
            context = windows(passages)
            return judge_claims(claims, context, FactCheck(context, question), self.similarities)

        return _fill_items(ask, self._findings(["verify", claims, passages, question], judge))

    def _rate(self, ask: Ask) -> Filled:
        subject = "\n".join(_texts(_variable(ask, "against", "question")))
        rated = ask.items if ask.items is not None else (_variable(ask, "source", "answer"),)
        texts = ["\n".join(_texts(item)) for item in rated]

        def rate() -> list[Support]:
            cosines = self.similarities([(text, [subject]) for text in texts])
            reason = "similarity of meaning {:.2f} (cosine of sentence embeddings)"
            return [Support(cosine, reason.format(cosine)) for cosine in cosines]

        findings = self._findings(["rate", texts, subject], rate)
        if ask.items is not None:
            return _fill_items(ask, findings)
        content, chances = fill(ask.reply_model, findings[0])
        return content, [chances]

    def _findings(self, question: Sequence[object], find: Callable[[], list[Support]]) -> list[Support]:
        """Return the result of `find` for a question, possibly cached by an earlier run or another metric."""
        kept = self._kept
        if kept is None:
            return find()
        key = hashlib.sha256(json.dumps([self.info.identity, *question]).encode()).digest()
        if (known := kept.computed([key]).get(key)) is not None:
            return [Support(support, reason) for support, reason in json.loads(known)]
        findings = find()
        kept.keep_computed({key: json.dumps([(one.support, one.reason) for one in findings]).encode()})
        return findings

    def similarities(self, pairs: Sequence[tuple[str, Sequence[str]]]) -> list[float]:
        """For each text, the largest cosine between it and some others, 0..1; all are embedded together."""
        vectors = self._minilm.embed([text for text, others in pairs for text in (text, *others)], self._kept)
        cosines: list[float] = []
        start = 0
        for _, others in pairs:
            end = start + 1 + len(others)
            cosine = float((vectors[start + 1 : end] @ vectors[start]).max())
            cosines.append(min(1.0, max(0.0, cosine)))
            start = end
        return cosines


def judge_claims(
    claims: Sequence[str], context: Sequence[Window], facts: FactCheck, similarities: Similarities
) -> list[Support]:
    """Return the support of each claim; the lowest is the overall support, since one false sentence spoils a text."""
    evidence = weigh_all(claims, context, similarities)
    differences = [facts.differences(claim, passage.sentences) for claim, passage in zip(claims, evidence, strict=True)]
    own = [
        passage.support * LEFT_BY_A_DIFFERENCE ** len(differing)
        for passage, differing in zip(evidence, differences, strict=True)
    ]
    least = min(own, default=0.0)
    return [
        _finding(passage, differing, support, SHARE_OF_THE_LEAST * least + (1 - SHARE_OF_THE_LEAST) * support)
        for passage, differing, support in zip(evidence, differences, own, strict=True)
    ]


def weigh_all(claims: Sequence[str], context: Sequence[Window], similarities: Similarities) -> list[Evidence]:
    """Weigh claims by shared words, and by their similarity to the passage if there is one."""
    evidence = [weigh(claim, context) for claim in claims]
    compared = [index for index, piece in enumerate(evidence) if piece.sentences]
    cosines = similarities([(claims[index], evidence[index].sentences) for index in compared])
    for index, cosine in zip(compared, cosines, strict=True):
        evidence[index] = evidence[index].with_similarity(cosine)
    return evidence


def text_of(item: Any) -> str:
    """The text of a claim or a context: itself, its `text`, or the one string among its fields."""
    if isinstance(item, str):
        return item
    if isinstance(getattr(item, "text", None), str):
        return item.text
    fields = item.model_dump() if isinstance(item, BaseModel) else item
    if isinstance(fields, Mapping):
        strings = {key: value for key, value in cast(Mapping[str, object], fields).items() if isinstance(value, str)}
        key = next((key for key in TEXT_KEYS if key in strings), next(iter(strings), None))
        if key is not None and (key in TEXT_KEYS or len(strings) == 1):
            return strings[key]
    raise UnsupportedStepError(f"no text to compare in {item!r:.80}")


def _texts(value: object) -> list[str]:
    """The texts in a string, a context, or a sequence of either; none for None."""
    if value is None:
        return []
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [text_of(part) for part in cast(Sequence[object], value)]
    return [text_of(value)]


def _variable(ask: Ask, *names: str) -> object:
    for name in names:
        if ask.variables.get(name) is not None:
            return ask.variables[name]
    raise UnsupportedStepError(f"{ask.task} needs the variable {' or '.join(names)}")


def _extract(ask: Ask) -> Filled:
    """Every sentence is a claim; those that state nothing ("Yes.", "Thank you!") are left out."""
    name = list_of_text(ask.reply_model)
    texts = _texts(_variable(ask, "source"))
    return {name: [line for text in texts for line in sentences(text) if states_something(line)]}, None


def _fill_items(ask: Ask, findings: Sequence[Support]) -> Filled:
    model = item_type(ask.reply_model.model_fields["results"])
    filled = [fill(model, finding, listed=True) for finding in findings]
    return numbered_results([content for content, _ in filled]), [chances for _, chances in filled]


def _finding(evidence: Evidence, differences: Sequence[str], own: float, support: float) -> Support:
    if not evidence.sentences:
        return Support(support, "there is nothing to compare it with")
    passage = evidence.passage
    if len(passage) > PASSAGE_CHARACTERS:
        passage = passage[:PASSAGE_CHARACTERS].rstrip() + "…"
    lowered = f" ({own:.2f} without the least supported claim)" if own - support >= 0.005 else ""
    notes = [*differences, f"support {support:.2f}{lowered}"]
    if evidence.unseen:
        notes.append(f"words not in the closest passage: {', '.join(evidence.unseen)}")
    else:
        notes.append("every content word is in the closest passage")
    return Support(support, f'{"; ".join(notes)}; closest passage: "{passage}"')
