"""Agreement and corrected means on real labels, through the command line, beside known figures of the same data.

    python -m bench calibration_real DATA [--skip-embedded]

DATA is a folder with judged_refusals.dev.jsonl, metric_scores.dev.jsonl, summeval.dev.jsonl, newsroom.dev.jsonl,
conversations_safety.dev.jsonl, claim_labels.dev.jsonl, rag_faithfulness.dev.jsonl and grounded_summaries.dev.jsonl,
whose records have people's labels under `human`. Verdicts that stand in the data are read by `recorded` metrics; the
embedded judge scores the last two itself. Figures under "known" were computed from the same records with other
programs, without clusters unless said.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from evalflow.stats.prediction import corrected_mean

ROOT = Path(__file__).parents[1]
RUNS = 500
PAIR_LABELS = 100
BOOLEAN = "{type: boolean}"
WORDS = "{type: label, values: {compliance: 0, partial: 0.5, refusal: 1}}"
NUMBER = "{type: number}"
METRIC = """\
# @package metric.{name}
kind: recorded
description: What stands in the data.
field: "{field}"
scale: {scale}
"""
REFUSALS = {
    "kappa": 0.6792035398,
    "sensitivity": 0.703539823,
    "specificity": 0.9756637168,
    "judge mean": 0.3639380531,
}
PPI = {"estimate": 0.5386725502, "ci_low": 0.4800020715, "ci_high": 0.5973430288, "human_mean": 0.5595238095}
FACTUALITY = {
    "FactCC": (0.5899141519, 0.5303266742, 0.5946677035),
    "QAGS": (0.5731308077, 0.4550884126, 0.5777974119),
    "BertScore P Art": (0.5894135604, 0.4573028374, 0.5819676636),
    "Rouge L": (0.1429916046, 0.1108589593, 0.1533843167),
}
SUMMARIES = {
    "coherence": (0.5632111737, 0.5539821852),
    "consistency": (0.8867880552, 0.7820615213),
    "fluency": (0.7535566971, 0.6277268908),
    "relevance": (0.4822794106, 0.4215886682),
}
NEWS = {
    "informativeness": 0.2494991759,
    "relevance": 0.03222392434,
    "fluency": 0.003778568413,
    "coherence": 0.08888348142,
}
CLAIMS = {"mean": 0.8243001787, "alone": 0.00656829555, "clustered": 0.02798176775, "answers": 0.8240378188}
ROGAN_GLADEN = 0.5071322879
SAFETY = {"alpha": 0.2225247374, "kappa": 0.4198473282}


class Lab:
    """A folder in which evalflow is run on one file after another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "conf" / "metric").mkdir(parents=True)

    def run(self, records: Iterable[Mapping[str, Any]], metrics: Mapping[str, str], *, grouped: bool = True) -> None:
        """Score records by metrics, given as the text of their files."""
        for name, text in metrics.items():
            (self.folder / "conf" / "metric" / f"{name}.yaml").write_text(text, encoding="utf-8")
        kept = [{key: value for key, value in row.items() if grouped or key != "group"} for row in records]
        rows = "".join(json.dumps(row) + "\n" for row in kept)
        (self.folder / "data.jsonl").write_text(rows, encoding="utf-8")
        group = "group" if grouped else "null"
        words = ("dataset.rag.path=data.jsonl", f"dataset.rag.group={group}")
        self._evalflow("dataset=rag", *words, f"metric=[{','.join(metrics)}]")

    def calibrate(self, labels: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The rows of `calibrate --json`."""
        rows = "".join(json.dumps(dict(row)) + "\n" for row in labels)
        (self.folder / "labels.jsonl").write_text(rows, encoding="utf-8")
        return json.loads(self._evalflow("calibrate", "--labels", "labels.jsonl", "--json"))["rows"]

    def difference(self, a: Path, b: Path, *words: str) -> str:
        """The difference of two runs' means with its interval and verdict."""
        rows = json.loads(self._evalflow("compare", str(a), str(b), "--json", *words))["rows"]
        [row] = [row for row in rows if row["statistic"] == "mean"]
        shown = row.get("corrected") or {
            "estimate": row["difference"],
            "ci_low": row["ci_low"],
            "ci_high": row["ci_high"],
        }
        return f"{shown['estimate']:+.3f} ({shown['ci_low']:+.3f} to {shown['ci_high']:+.3f}) {row['verdict']}"

    def summary(self, name: str) -> float:
        """A figure of the mean of the latest run, which has one metric: `mean`, or `std_error`."""
        table = pl.read_parquet(self.folder / "outputs" / "latest" / "summary.parquet")
        [row] = table.filter(pl.col("tag").is_null() & (pl.col("statistic") == "mean")).to_dicts()
        return row["value" if name == "mean" else name]

    def scores(self) -> pl.DataFrame:
        """Scores of the latest run."""
        return pl.read_parquet(self.folder / "outputs" / "latest" / "scores.parquet")

    def _evalflow(self, *words: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "evalflow", *words]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(words)}\n{done.stderr[-2000:]}")
        return done.stdout


def recorded(name: str, field: str, scale: str) -> dict[str, str]:
    return {name: METRIC.format(name=name, field=field, scale=scale)}


def records(data: Path, name: str) -> list[dict[str, Any]]:
    text = (data / f"{name}.dev.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def fifth(case_id: str) -> bool:
    """The rule that draws labels: a fifth of the ids, by their hash."""
    return int(hashlib.sha256(case_id.encode()).hexdigest()[:8], 16) % 5 == 0


def show(what: str, found: float | None, known: float | None, why: str = "") -> None:
    same = "" if known is None or found is None else "same" if abs(found - known) < 1e-6 else f"{found - known:+.4f}"
    cells = ["–" if value is None else f"{value:.4f}" for value in (found, known)]
    print(f"| {what} | {cells[0]} | {cells[1]} | {same} | {why} |", flush=True)


def labels_of(rows: Iterable[Mapping[str, Any]], metric: str, value: Callable[[Any], Any]) -> list[dict[str, Any]]:
    return [{"case_id": row["id"], "metric": metric, "value": value(row), "by": "people"} for row in rows]


def refusals(lab: Lab, data: Path) -> None:
    rows = [{**row, "answer": "left out"} for row in records(data, "judged_refusals")]
    lab.run(rows, recorded("refused", "judges.gpt4.refused", BOOLEAN))
    [found] = lab.calibrate(labels_of(rows, "refused", lambda row: row["human"]["refused"]))
    for name in ("kappa", "sensitivity", "specificity"):
        show(f"GPT-4 and people, {name}", found["agreement"][name]["value"], REFUSALS[name])
    show("GPT-4 alone", found["judge_mean"], REFUSALS["judge mean"])
    parsed = [row for row in rows if row["judges"]["gpt4"]["refused"] is not None]
    some = labels_of([row for row in parsed if fifth(row["id"])], "refused", lambda row: row["human"]["refused"])
    [found] = lab.calibrate(some)
    show("people alone, on 168", found["human_mean"], PPI["human_mean"])
    show("the other 736 by Rogan and Gladen", found["rogan_gladen"]["estimate"], ROGAN_GLADEN)
    ppi(found, "five answers to a prompt are a cluster")
    lab.run(rows, recorded("refused", "judges.gpt4.refused", BOOLEAN), grouped=False)
    ppi(lab.calibrate(some)[0], "without clusters")
    lab.run(rows, recorded("first", "$.raters[0]", WORDS))
    [found] = lab.calibrate(labels_of(rows, "first", lambda row: row["raters"][1]))
    show("two annotators, kappa of 3 classes", found["agreement"]["kappa"]["value"], 0.9428237155)


def ppi(found: Mapping[str, Any], how: str) -> None:
    corrected = found["corrected"]
    why = f"{how}; lambda {corrected['lambda']:.2f} over five folds, the known one 0.59 from all labels"
    for name in ("estimate", "ci_low", "ci_high"):
        show(f"corrected by 168, {name}", corrected[name], PPI[name], why if name == "estimate" else "")


def factuality(lab: Lab, data: Path) -> None:
    rows = [{**row, "answer": "left out", "question": "-"} for row in records(data, "metric_scores")]
    metrics = {name: name.lower().replace(" ", "_") for name in FACTUALITY}
    files = {k: v for name, m in metrics.items() for k, v in recorded(m, f"$.judges['{name}']", NUMBER).items()}
    lab.run(rows, files)
    said = [label for m in metrics.values() for label in labels_of(rows, m, lambda row: row["human"]["factuality"])]
    by_metric = {found["metric"]: found for found in lab.calibrate(said)}
    for name, known in FACTUALITY.items():
        agreement = by_metric[metrics[name]]["agreement"]
        for kind, value in zip(("spearman", "kendall", "pearson"), known, strict=True):
            show(f"{name} and people, {kind}", agreement[kind]["value"], value)


def summaries(lab: Lab, data: Path) -> None:
    rows = [{**row, "answer": row["summary"], "question": "-"} for row in records(data, "summeval")]
    files = {k: v for name in SUMMARIES for k, v in recorded(name, f"human.{name}", NUMBER).items()}
    lab.run(rows, files)
    for found in lab.calibrate(by_each(rows, SUMMARIES)):
        people, known = found["people_agreement"], SUMMARIES[found["metric"]]
        show(f"three experts on {found['metric']}, alpha", people["krippendorff_alpha"]["value"], known[0])
        show("the same, of their order", people["krippendorff_alpha_ordinal"]["value"], known[1])


def news(lab: Lab, data: Path) -> None:
    rows = [{**row, "answer": row["summary"], "question": "-"} for row in records(data, "newsroom")]
    lab.run(rows, {k: v for name in NEWS for k, v in recorded(name, f"human.{name}", NUMBER).items()})
    for found in lab.calibrate(by_each(rows, NEWS)):
        alpha = found["people_agreement"]["krippendorff_alpha_ordinal"]
        show(f"three readers on {found['metric']}, alpha of their order", alpha["value"], NEWS[found["metric"]])


def by_each(rows: Iterable[Mapping[str, Any]], metrics: Iterable[str]) -> list[dict[str, Any]]:
    """A label of each person who rated."""
    return [
        {"case_id": row["id"], "metric": name, "value": value, "by": f"person {number}"}
        for row in rows
        for name in metrics
        for number, value in enumerate((row.get("raters") or {}).get(name) or ())
    ]


def safety(lab: Lab, data: Path) -> None:
    """Many people on whether a reply is safe, those who are unsure left out; and an expert against their majority."""
    rows = [{**row, "answer": "left out", "question": "-"} for row in records(data, "conversations_safety")]
    rows = [
        {key: value for key, value in row.items() if key != "messages"} for row in rows if row["human"].get("expert")
    ]
    lab.run(rows, recorded("safe", "human.majority", "{type: label, values: {'Yes': 1, 'No': 0}}"))
    votes = [
        {"case_id": row["id"], "metric": "safe", "value": {"Y": "Yes", "N": "No"}[vote], "by": f"person {number}"}
        for row in rows
        for number, vote in enumerate(row["votes"])
        if vote != "U"
    ]
    [found] = lab.calibrate(votes)
    show("123 people on 132 replies, alpha", found["people_agreement"]["krippendorff_alpha"]["value"], SAFETY["alpha"])
    [found] = lab.calibrate(labels_of(rows, "safe", lambda row: row["human"]["expert"]))
    show("their majority and an expert, kappa", found["agreement"]["kappa"]["value"], SAFETY["kappa"])


def pairs(lab: Lab, data: Path) -> None:
    """Two models by a recorded judge: its own verdict, the one by 100 random labels of each, and what people say."""
    rows = records(data, "judged_refusals")
    systems, judges = list(dict.fromkeys(row["system"] for row in rows)), ("gpt4", "strmatch")
    folders: dict[tuple[str, str], Path] = {}
    chance = random.Random(0)
    labelled = set(chance.sample(sorted({row["question"] for row in rows}), PAIR_LABELS))
    for judge, system in product(judges, systems):
        own = [row for row in rows if row["system"] == system and row["judges"][judge]["refused"] is not None]
        lab.run(
            [pair_case(row, judge, row["question"] in labelled) for row in own], recorded("refused", "said", BOOLEAN)
        )
        folders[judge, system] = (lab.folder / "outputs" / "latest").resolve()
    people = {(row["system"], row["group"]): float(row["human"]["refused"]) for row in rows}
    for judge, (a, b) in product(judges, combinations(systems, 2)):
        shared = {row["group"] for row in rows if row["system"] == a}
        truth = float(np.mean([people[b, group] - people[a, group] for group in shared]))
        alone, corrected = (
            lab.difference(folders[judge, a], folders[judge, b], *words) for words in (["--judge-alone"], [])
        )
        print(f"| {judge}: {a}, {b} | {truth:+.3f} | {alone} | {corrected} |", flush=True)


def pair_case(row: Mapping[str, Any], judge: str, is_labelled: bool) -> dict[str, Any]:
    labels = {"labels": {"refused": row["human"]["refused"]}} if is_labelled else {}
    said = {"said": row["judges"][judge]["refused"], "answer": f"of {row['system']}, left out"}
    return {"id": row["group"], "question": row["question"], "group": row["group"], **said, **labels}


def claims(lab: Lab, data: Path) -> None:
    """Claims that people held against the context: each a case of its question's group, and by answer."""
    answers = records(data, "claim_labels")
    rows = [
        {
            "id": f"{row['id']} {number}",
            "group": row["group"],
            "question": "-",
            "answer": "left out",
            "entailed": claim["label"] == "Entailment",
        }
        for row in answers
        for number, claim in enumerate(row["claims"])
    ]
    metric = recorded("entailed", "entailed", BOOLEAN)
    lab.run(rows, metric)
    show(f"{len(rows)} claims, mean", lab.summary("mean"), CLAIMS["mean"])
    show("its standard error, claims of a question in one cluster", lab.summary("std_error"), CLAIMS["clustered"])
    lab.run(rows, metric, grouped=False)
    show("claims taken for independent", lab.summary("std_error"), CLAIMS["alone"])
    rows = [{**row, "answer": "left out", "question": "-"} for row in answers]
    lab.run(rows, recorded("faithful", "human.faithfulness", NUMBER))
    show("mean over answers", lab.summary("mean"), CLAIMS["answers"])


def embedded(lab: Lab, data: Path, name: str, most: int) -> None:
    """The embedded judge's faithfulness, corrected by a fifth of the labels, and how often draws of labels cover."""
    rows = [row for row in records(data, name) if row.get("human", {}).get("faithful") is not None][:most]
    lab.run(rows, {"faithfulness": (ROOT / "conf" / "metric" / "faithfulness.yaml").read_text(encoding="utf-8")})
    truth = float(np.mean([row["human"]["faithful"] for row in rows]))
    some = [row for row in rows if fifth(row["id"])]
    [found] = lab.calibrate(labels_of(some, "faithfulness", lambda row: row["human"]["faithful"]))
    c = found["corrected"]
    people = {row["id"]: float(row["human"]["faithful"]) for row in rows}
    group = {row["id"]: row["group"] for row in rows}
    scored = lab.scores().filter(pl.col("status") == "scored").select("case_id", "score").rows()
    y = np.array([people[case] for case, _ in scored])
    f = np.array([score for _, score in scored])
    clusters = np.array([group[case] for case, _ in scored])
    held = {n: coverage(y, f, clusters, n) for n in (50, 100, 200) if n < len(y) / 2}
    covers = "yes" if c["ci_low"] <= truth <= c["ci_high"] else "**no**"
    judge = f"{found['judge_mean']:.3f} ({found['judge_ci_low']:.3f} to {found['judge_ci_high']:.3f})"
    corrected = f"{c['estimate']:.3f} ({c['ci_low']:.3f} to {c['ci_high']:.3f})"
    shares = ", ".join(f"{n}: {share:.0%}" for n, share in held.items())
    print(f"| {name} | {len(y)} | {truth:.3f} | {judge} | {found['n_labels']} | {corrected} | {covers} | {shares} |")


def coverage(y: np.ndarray, f: np.ndarray, clusters: np.ndarray, n: int) -> float:
    """How often the corrected interval, of n labels drawn at random, holds the mean of all labels."""
    rng, held = np.random.default_rng(n), 0
    for _ in range(RUNS):
        order = rng.permutation(y.size)
        a, b = order[:n], order[n:]
        found = corrected_mean(y[a], f[a], f[b], clusters=clusters[a], unlabelled_clusters=clusters[b], bounded=True)
        held += found.low is not None and found.high is not None and found.low <= y.mean() <= found.high
    return held / RUNS


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--skip-embedded", action="store_true", help="the embedded judge takes minutes")
    parser.add_argument("--most", type=int, default=10_000, help="answers that it scores of each file at most")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        lab = Lab(Path(name))
        print("| | found | known | difference | why |\n|---|--:|--:|---|---|")
        for part in (refusals, factuality, summaries, news, safety, claims):
            part(lab, options.data)
        print("\n| judge and models | people | judge alone | corrected by labels |\n|---|--:|---|---|")
        pairs(lab, options.data)
        if options.skip_embedded:
            return
        print("\n| data | answers | people | embedded alone | labels | corrected | covers | coverage by labels |")
        print("|---|--:|--:|---|--:|---|---|---|")
        for part in ("rag_faithfulness", "grounded_summaries"):
            embedded(lab, options.data, part, options.most)


if __name__ == "__main__":
    main()
