"""How well the embedded judge agrees with people.

    python bench/embedded.py DATA_DIR
    python bench/embedded.py DATA_DIR --half held-out

Reads the labelled sets rag_faithfulness, grounded_summaries, summeval and newsroom (*.jsonl) of a folder and asks the
judge as a metric does: extract_claims on the answer, verify_claims against the context, then the mean support over the
claims. The judge's words for facts and its two constants were chosen on one half of the source documents; `--half
held-out` measures on the other. Prints ROC-AUC where the label is a verdict and Spearman's rho where it is a grade,
with a 95 % bootstrap interval over whole groups (source documents); balanced accuracy of the verdict "support at least
0.5"; and CPU time. Of the sample answers (data/rag.jsonl), the sound ones are measured with those that have a coarse
fault, and with those that have a fine one.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import json
import re
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from scipy.stats import rankdata

from evalflow.addons.embedded import minilm
from evalflow.addons.embedded.evidence import Evidence, sentences, states_something, weigh, windows
from evalflow.addons.embedded.judge import EmbeddedJudge, weigh_all
from evalflow.config.judges import EmbeddedJudgeConfig
from evalflow.records import Ask

RESAMPLES = 1000
SETS = ("rag_faithfulness", "grounded_summaries", "summeval", "newsroom")
SAMPLE = Path(__file__).parents[1] / "data" / "rag.jsonl"
Floats = NDArray[np.float64]


class Claims(BaseModel):
    """Reply to extract_claims."""

    claims: list[str]


class Verdict(BaseModel):
    """What is said of one claim."""

    reason: str
    verdict: Literal["supported", "contradicted", "not_in_context"]


class Verdicts(BaseModel):
    """Reply to verify_claims."""

    results: list[Verdict]


class Grade(BaseModel):
    """Reply to rate_relevance."""

    grade: float = Field(ge=0, le=1)


@dataclass(frozen=True)
class Item:
    """One labelled answer; the label is a verdict (bool) or a grade."""

    answer: str
    contexts: tuple[str, ...]
    label: float
    group: str


Score = Callable[[EmbeddedJudge, Item], Awaitable[float | None]]


async def faithfulness(judge: EmbeddedJudge, item: Item) -> float | None:
    """Mean support over the answer's claims; None where it has none."""
    extract = Ask(
        metric="bench",
        step="claims",
        task="extract_claims",
        messages=(),
        reply_model=Claims,
        variables={"source": item.answer},
    )
    claims = cast(Claims, (await judge.ask(extract)).parsed).claims
    if not claims:
        return None
    verify = Ask(
        metric="bench",
        step="verdicts",
        task="verify_claims",
        messages=(),
        reply_model=Verdicts,
        variables={"against": item.contexts},
        items=tuple(claims),
    )
    reply = await judge.ask(verify)
    return float(np.mean([chances["verdict"]["supported"] for chances in reply.probabilities or ()]))


async def overlap(_: EmbeddedJudge, item: Item) -> float | None:
    """Mean of the first three numbers over the answer's claims: neither similarity nor facts."""
    return mean_support([weigh(claim, windows(item.contexts)) for claim in claims_of(item)])


async def similarity(judge: EmbeddedJudge, item: Item) -> float | None:
    """As `overlap`, with the fourth number: the judge without its facts."""
    return mean_support(weigh_all(claims_of(item), windows(item.contexts), judge.similarities))


def claims_of(item: Item) -> list[str]:
    return [line for line in sentences(item.answer) if states_something(line)]


def mean_support(evidence: Sequence[Evidence]) -> float | None:
    return float(np.mean([one.support for one in evidence])) if evidence else None


async def relevance(judge: EmbeddedJudge, item: Item) -> float | None:
    """Relevance of the answer to what it summarises."""
    rate = Ask(
        metric="bench",
        step="rate",
        task="rate_relevance",
        messages=(),
        reply_model=Grade,
        variables={"against": item.contexts, "source": item.answer},
    )
    return cast(Grade, (await judge.ask(rate)).parsed).grade


def auc(labels: Floats, scores: Floats) -> float:
    """Area under the ROC curve: how often a positive outranks a negative, ties counted half."""
    positive = labels > 0
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    if not n_positive or not n_negative:
        return float("nan")
    rank_sum = float(rankdata(scores)[positive].sum())
    return (rank_sum - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)


def spearman(labels: Floats, scores: Floats) -> float:
    """Spearman's rank correlation."""
    if np.ptp(labels) == 0 or np.ptp(scores) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(labels), rankdata(scores))[0, 1])


def balanced_accuracy(labels: Floats, scores: Floats) -> float:
    """Mean of sensitivity and specificity of "support at least 0.5"."""
    said, true = scores >= 0.5, labels > 0
    return float((said[true].mean() + (~said[~true]).mean()) / 2)


def interval(
    figure: Callable[[Floats, Floats], float], labels: Floats, scores: Floats, groups: list[str]
) -> tuple[float, float]:
    """95 % percentile bootstrap, drawing whole groups."""
    members: defaultdict[str, list[int]] = defaultdict(list)
    for index, group in enumerate(groups):
        members[group].append(index)
    clusters = [np.array(indices) for indices in members.values()]
    random = np.random.default_rng(0)
    drawn: list[float] = []
    for _ in range(RESAMPLES):
        chosen = np.concatenate([clusters[index] for index in random.integers(0, len(clusters), len(clusters))])
        drawn.append(figure(labels[chosen], scores[chosen]))
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def records(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """The records of every file of a set."""
    for path in sorted(folder.glob(f"{name}*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            yield from (json.loads(line) for line in lines)


def plain(markup: str) -> str:
    """HTML as text, one line per block."""
    return html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"</(?:p|li|h\d|div)>", "\n", markup)))


def answers(folder: Path) -> Iterator[tuple[str, Item]]:
    """Answers with their contexts; a set's name is its dataset's."""
    for name in ("rag_faithfulness", "grounded_summaries"):
        for row in records(folder, name):
            truth = row.get("constructed") or row["human"]
            label = truth["overall_quality_1_5"] if "overall_quality_1_5" in truth else truth["faithful"]
            if label is not None:  # generic chatter was labelled neither faithful nor not
                contexts = tuple(plain(context["html_content"]) for context in row["structured_contexts"])
                yield row["dataset"], Item(row["llm_answer"], contexts, float(label), row["group"])
    for row in records(folder, "summeval"):
        yield "summeval consistency", Item(row["summary"], (row["source"],), row["human"]["consistency"], row["group"])
    yield from sample_answers()


def sample_answers() -> Iterator[tuple[str, Item]]:
    """The sound sample answers with each kind of faulty ones: coarse and fine."""
    for line in SAMPLE.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        faults = [tag.split(" > ")[1] for tag in row["tags"] if tag.startswith("Fault > ")]
        contexts = tuple(plain(context["html_content"]) for context in row["structured_contexts"])
        for kind in ("Coarse", "Fine"):
            if not faults or kind in faults:
                yield f"sample, {kind.lower()} faults", Item(row["llm_answer"], contexts, not faults, row["group"])


def summaries(folder: Path) -> Iterator[tuple[str, Item]]:
    """Summaries with their relevance."""
    for name in ("summeval", "newsroom"):
        for row in records(folder, name):
            yield f"{name} relevance", Item(row["summary"], (row["source"],), row["human"]["relevance"], row["group"])


async def measure(name: str, part: str, items: list[Item], judge: EmbeddedJudge, score: Score) -> None:
    """Score a set and print its line."""
    started = time.process_time()
    scored = [(await score(judge, item), item) for item in items]
    milliseconds = (time.process_time() - started) / len(items) * 1000
    defined = [(value, item) for value, item in scored if value is not None]
    values = np.array([value for value, _ in defined])
    labels = np.array([item.label for _, item in defined])
    groups = [item.group for _, item in defined]
    graded = len(set(labels.tolist())) > 2
    figure = spearman if graded else auc
    low, high = interval(figure, labels, values, groups)
    at_half = "-" if graded else f"{balanced_accuracy(labels, values):.2f}"
    row = (name, part, len(defined), len(items) - len(defined), len(set(groups)), "rho" if graded else "AUC")
    print_row(*row, f"{figure(labels, values):.3f}", f"[{low:.2f}, {high:.2f}]", at_half, f"{milliseconds:.1f}")


def print_row(*cells: object) -> None:
    widths = (22, 10, 5, 9, 6, 6, 6, 14, 6, 6)
    line = [
        f"{cell!s:>{width}}" if index > 1 else f"{cell!s:<{width}}"
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    print(" ".join(line), flush=True)


HALVES = {"chosen-on": 0, "held-out": 1}


def of_half(item: Item, half: str | None) -> bool:
    """Whether an item's source document is in a half; all are without one."""
    return half is None or zlib.crc32(item.group.encode()) % 2 == HALVES[half]


async def main(folder: Path, half: str | None) -> int:
    """Measure every set of the folder: words alone, with sentence similarity, and the judge, which sees facts too."""
    if not any(path for name in SETS for path in folder.glob(f"{name}*.jsonl")):
        print(f"{folder} holds none of the labelled sets", file=sys.stderr)
        return 2
    config = EmbeddedJudgeConfig(kind="embedded")
    print_row("set", "judge", "n", "undefined", "groups", "figure", "value", "95 % interval", "at 0.5", "CPU ms")
    parts: list[tuple[str, Callable[[Path], Iterator[tuple[str, Item]]], Score]] = [
        ("lexical", answers, overlap),
        ("similarity", answers, similarity),
        ("facts", answers, faithfulness),
        ("cosine", summaries, relevance),
    ]
    for part, read, score in parts:
        sets: defaultdict[str, list[Item]] = defaultdict(list)
        for name, item in read(folder):
            if of_half(item, half):
                sets[name].append(item)
        together = [item for name, items in sets.items() if name.startswith("summedits") for item in items]
        if together:
            sets["summedits, all"] = together
        minilm.shared.cache_clear()  # each part pays for its own embeddings
        judge = EmbeddedJudge(config)
        for name, items in sets.items():
            await measure(name, part, items, judge, score)
        await judge.close()
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--half", choices=list(HALVES), help="only half of the source documents")
    options = parser.parse_args()
    raise SystemExit(asyncio.run(main(options.data_dir, options.half)))
