"""Draw the pictures of docs/looks-labels-groups.md, from simulated runs.

    python -m bench pictures [FOLDER] [--only NAME]

Writes SVG files into docs/pictures/, or the folder. Each has the colours of a report, light and dark, and says its
result in one sentence, which is the text that the page shows where a picture cannot be seen.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist

import looks
import numpy as np
from _draws import Floats

from evalflow.report import svg
from evalflow.stats.corrected_differences import corrected_difference
from evalflow.stats.intervals import interval, wilson
from evalflow.stats.looks import anytime_interval, obrien_fleming
from evalflow.stats.paired import paired_difference
from evalflow.stats.prediction import corrected_mean

ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT = 560.0, 230.0
LIMIT, CASES, RUNS = looks.LIMIT, looks.CASES, 1_000


@dataclass(frozen=True, slots=True)
class Curve:
    """A line through points, named at its end."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    stroke: str
    dash: str | None = None


def curves(drawing: svg.Drawing, shown: Sequence[Curve], x: svg.Scale, y: svg.Scale) -> None:
    """Draw curves, and their names right of the plot, none above another."""
    for curve in shown:
        points = [(x(a), y(b)) for a, b in zip(curve.x, curve.y, strict=True)]
        for start, end in pairwise(points):
            drawing.line(start, end, curve.stroke, width=2, dash=curve.dash, cap="round")
    height = -np.inf
    for curve in sorted((curve for curve in shown if curve.name), key=lambda curve: y(curve.y[-1])):
        height = max(y(curve.y[-1]) + 4, height + 14)
        drawing.text(x.end + 8, height, curve.name, anchor="start", fill=curve.stroke)


def write(folder: Path, name: str, sentence: str, drawing: svg.Drawing) -> None:
    """Write a picture that stands alone: with its own colours and background."""
    css = (ROOT / "evalflow" / "report" / "templates" / "page.css").read_text(encoding="utf-8")
    colours = css[: css.index("* {")]
    style = f"<style>{colours}svg {{ background: var(--paper); font-family: var(--sans); }}</style>"
    markup = drawing.markup(sentence).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    head, rest = re.fullmatch(r"(<svg [^>]*>)(.*)", markup, re.DOTALL).groups()  # pyright: ignore[reportOptionalMemberAccess]
    (folder / f"{name}.svg").write_text(f"{head}{style}{rest}\n", encoding="utf-8")
    print(f"![{sentence}](pictures/{name}.svg)")


def one_run(folder: Path) -> None:
    """A run whose true rate is the limit, and whose usual interval leaves the limit for some time anyway."""
    ends = np.arange(20, CASES + 1, 20)
    for seed in range(100):
        scores = (np.random.default_rng(seed).random(CASES) < LIMIT).astype(float)
        passed = np.cumsum(scores)[ends - 1]
        low, high = wilson(passed, ends)
        out = ends[(low > LIMIT) & (ends >= 50)]
        if out.size >= 5 and low[-1] < LIMIT < high[-1]:
            break
    else:
        raise RuntimeError("no run leaves the limit")
    anytime = [anytime_interval(scores[:end]) for end in ends]
    drawing, x, y = svg.Drawing(), svg.Scale(0, CASES, 0, WIDTH), svg.Scale(0.8, 1, HEIGHT, 0)
    svg.y_axis(drawing, y, WIDTH, "pass rate")
    svg.x_axis(drawing, x, HEIGHT, "cases so far")
    drawing.line((0, y(LIMIT)), (WIDTH, y(LIMIT)), svg.INK, dash="4 3")
    drawing.text(WIDTH + 8, y(LIMIT) + 4, "limit, and the truth", anchor="start", fill=svg.INK)
    below = [float(found.low or 0) for found in anytime]
    above = [float(found.high or 1) for found in anytime]
    shown = [
        Curve("", *_from(ends, low), svg.FAIL),
        Curve("for one look", *_from(ends, high), svg.FAIL),
        Curve("", *_from(ends, below), svg.MAIN),
        Curve("for any look", *_from(ends, above), svg.MAIN),
    ]
    curves(drawing, shown, x, y)
    for end in out:
        drawing.rect(x(end) - 2, HEIGHT - 6, 4, 6, svg.FAIL)
    sentence = (
        f"One run whose true pass rate is exactly the limit, 0.9. The usual interval lies above the limit after "
        f"{out[0]} cases, and at {out.size} of {int((ends >= 50).sum())} looks in all (marks below); at the end it "
        "holds the limit. The interval for any look holds it throughout."
    )
    write(folder, "looks-one-run", sentence, drawing)


def _from(ends: Floats, values: Sequence[float] | Floats) -> tuple[list[float], list[float]]:
    """Points within the picture."""
    return [float(end) for end in ends], [min(max(float(value), 0.8), 1) for value in values]


def errors(folder: Path) -> None:
    """How often a verdict is wrong by the number of looks."""
    counts = [1, 2, 5, 10, 20, 50, 100]
    rng = np.random.default_rng(1)
    passed = np.cumsum(rng.random((10 * RUNS, CASES)) < LIMIT, axis=1)

    def wrong(count: int, bound: float) -> float:
        """The percentage of runs whose interval leaves the limit at any look, at `bound` errors at the last one."""
        out = np.zeros(len(passed), dtype=bool)
        for look in range(1, count + 1):
            end = CASES * look // count
            quantile = bound * (count / look) ** 0.5 if bound else NormalDist().inv_cdf(0.975)
            low, high = wilson(passed[:, end - 1], end, NormalDist().cdf(quantile))
            out |= (low > LIMIT) | (high < LIMIT)
        return 100 * float(out.mean())

    peeking = [wrong(count, 0) for count in counts]
    runs = [looks.KINDS["pass or fail"](rng, LIMIT) for _ in range(2 * RUNS)]
    held = {
        "5 looks": wrong(5, obrien_fleming(5)),
        "any look": 100 * float(np.mean([looks.anytime(run)[0] is not None for run in runs])),
    }
    drawing = svg.Drawing()
    x = svg.Scale(0, len(counts) - 1, 0, WIDTH, count=len(counts) - 1)
    y = svg.Scale.around([0, max(peeking)], HEIGHT, 0)
    svg.y_axis(drawing, y, WIDTH, "wrong verdicts", label=lambda value: f"{value:.0f} %")
    svg.x_axis(drawing, x, HEIGHT, "looks at 1,000 cases", label=lambda place: str(counts[round(place)]))
    places = list(range(len(counts)))
    drawing.line((0, y(5)), (WIDTH, y(5)), svg.MUTED, dash="4 3")
    drawing.text(WIDTH + 8, y(5) + 4, "5 %", anchor="start")
    curves(drawing, [Curve("the usual interval", places, peeking, svg.FAIL)], x, y)
    for count, value in zip(places, peeking, strict=True):
        drawing.text(x(count) - 4, y(value) - 8, f"{value:.0f} %", anchor="end", fill=svg.FAIL)
    for name, place in (("5 looks", counts.index(5)), ("any look", len(counts) - 1)):
        drawing.dot(x(place), y(held[name]))
        drawing.text(x(place) - 10, y(held[name]) + 11, f"{name}: {held[name]:.1f} %", anchor="end", fill=svg.MAIN)
    sentence = (
        f"Share of runs with a wrong verdict, where the true pass rate is the limit: {peeking[0]:.0f} % with one look, "
        f"{peeking[counts.index(10)]:.0f} % with ten and {peeking[-1]:.0f} % with a hundred. With methods for looks it "
        f"is {held['5 looks']:.1f} % with five planned ones and {held['any look']:.1f} % with a look after every case."
    )
    write(folder, "looks-errors", sentence, drawing)


def cases_asked(folder: Path) -> None:
    """How many cases are asked until the verdict, by the true pass rate."""
    truths = [0.7, 0.75, 0.8, 0.83, 0.86, 0.88, 0.9, 0.92, 0.94, 0.96, 0.98]
    asked: dict[str, list[float]] = {"5 looks": [], "any look": []}
    decided = {name: dict[float, float]() for name in ("one look", *asked)}
    methods = {"one look": looks.once, "5 looks": looks.planned, "any look": looks.anytime}
    for truth in truths:
        rng = np.random.default_rng(round(1000 * truth))
        runs = [looks.KINDS["pass or fail"](rng, truth) for _ in range(RUNS // 3)]
        for name, decide in methods.items():
            verdicts, seen = zip(*map(decide, runs), strict=True)
            decided[name][truth] = 100 - 100 * verdicts.count(None) / len(runs)
            if name in asked:
                asked[name].append(float(np.mean(seen)))
    drawing, x, y = svg.Drawing(), svg.Scale(0.7, 0.98, 0, WIDTH, count=7), svg.Scale(0, CASES, HEIGHT, 0)
    svg.y_axis(drawing, y, WIDTH, "cases asked, on average")
    svg.x_axis(drawing, x, HEIGHT, "true pass rate (the limit is 0.9)")
    drawing.line((x(LIMIT), 0), (x(LIMIT), HEIGHT), svg.INK, dash="4 3")
    shown = [Curve("one look", [0.7, 0.98], [CASES, CASES], svg.FAIL)]
    strokes = {"5 looks": svg.PASS, "any look": svg.MAIN}
    shown += [Curve(name, truths, values, strokes[name]) for name, values in asked.items()]
    curves(drawing, shown, x, y)
    at = truths.index
    sentence = (
        f"Cases asked until a gate on a pass rate of 0.9 is decided, out of 1,000. Looking after every case takes "
        f"{asked['any look'][at(0.8)]:.0f} where the truth is 0.8 and {asked['any look'][at(0.96)]:.0f} where it is "
        f"0.96; five looks take {asked['5 looks'][at(0.8)]:.0f} and {asked['5 looks'][at(0.96)]:.0f}. Near the limit "
        f"it costs verdicts: at 0.92, {decided['any look'][0.92]:.0f} % of the runs are decided, "
        f"{decided['5 looks'][0.92]:.0f} % with five looks and {decided['one look'][0.92]:.0f} % with one."
    )
    write(folder, "looks-cases", sentence, drawing)


def labels(folder: Path) -> None:
    """A judge that is too kind: alone, and corrected by more and more labels."""
    answers, truth = 1_000, 0.7

    def drawn(rng: np.random.Generator) -> tuple[Floats, Floats]:
        """What people and the judge say of the answers."""
        people = rng.random(answers) < truth
        return people.astype(float), (rng.random(answers) < np.where(people, 0.97, 0.3)).astype(float)

    people, judged = drawn(np.random.default_rng(0))
    alone = interval(judged, bounded=True)
    points = [svg.IntervalPoint("judge alone", float(judged.mean()), alone.low, alone.high)]
    widths: dict[int, list[float]] = {}
    for n in (25, 50, 100, 200):
        order = np.random.default_rng(n).permutation(answers)
        by_people = interval(people[order[:n]], bounded=True)
        found = corrected_mean(people[order[:n]], judged[order[:n]], judged[order[n:]], bounded=True)
        pair = [
            svg.IntervalPoint(f"{n} labels alone", float(people[order[:n]].mean()), by_people.low, by_people.high),
            svg.IntervalPoint(f"judge and {n} labels", found.estimate, found.low, found.high),
        ]
        widths[n] = [(point.high or 0) - (point.low or 0) for point in pair]
        points += pair
    held = {"judge": 0, "corrected": 0}
    for seed in range(RUNS):
        said, score = drawn(np.random.default_rng([1, seed]))
        found, by_judge = (
            corrected_mean(said[:100], score[:100], score[100:], bounded=True),
            interval(score, bounded=True),
        )
        held["judge"] += (by_judge.low or 0) <= truth <= (by_judge.high or 1)
        held["corrected"] += (found.low or 0) <= truth <= (found.high or 1)
    drawing = svg.interval_chart(points, [0.5, 0.9], "pass rate; dashed: what people say of all", float(people.mean()))
    sentence = (
        f"A judge passes 97 % of what people pass, and 30 % of the rest. Of 1,000 answers it says {judged.mean():.2f} "
        f"({alone.low:.2f} to {alone.high:.2f}); people say {people.mean():.2f}. With 100 labels the corrected "
        f"interval is {widths[100][1]:.2f} wide, by the labels alone {widths[100][0]:.2f}. In {RUNS:,} such runs it "
        f"holds the truth in {100 * held['corrected'] / RUNS:.0f} %, the judge's own in "
        f"{100 * held['judge'] / RUNS:.0f} %."
    )
    write(folder, "labels-mean", sentence, drawing)


def favours(folder: Path) -> None:
    """Two bots that are equally good, and a judge that favours one."""
    bias, count = [0.0, 0.01, 0.02, 0.03, 0.04, 0.06], RUNS // 2
    found: dict[str, list[float]] = {"the judge alone": [], "with 100 labels": []}
    for favour in bias:
        rng, hits = np.random.default_rng(round(1000 * favour)), {"the judge alone": 0, "with 100 labels": 0}
        for _ in range(count):
            truth = np.clip(rng.beta(4, 2, 300) + rng.normal(0, 0.15, (2, 300)), 0, 1)
            judged = np.clip(0.1 + 0.8 * truth + [[0.0], [favour]] + rng.normal(0, 0.15, truth.shape), 0, 1)
            seen = np.where(np.arange(300) < 100, truth, np.nan)
            corrected = corrected_difference((judged[0], judged[1]), (seen[0], seen[1]), bounded=True)
            assert corrected is not None
            hits["with 100 labels"] += (corrected.p_value or 0) < 0.05
            hits["the judge alone"] += (paired_difference(judged[0], judged[1], bounded=True).p_value or 0) < 0.05
        for name, hit in hits.items():
            found[name].append(100 * hit / count)
    drawing, x, y = svg.Drawing(), svg.Scale(0, 0.06, 0, WIDTH, count=6), svg.Scale(0, 100, HEIGHT, 0)
    svg.y_axis(drawing, y, WIDTH, "runs with a verdict", label=lambda value: f"{value:.0f} %")
    svg.x_axis(drawing, x, HEIGHT, "by how much the judge favours B (both are equally good)")
    curves(
        drawing,
        [Curve(name, bias, found[name], stroke) for name, stroke in zip(found, (svg.FAIL, svg.MAIN), strict=True)],
        x,
        y,
    )
    judge, people = found.values()
    sentence = (
        f"Two equally good bots, 300 cases. A judge that favours one by 0.03 finds a difference in {judge[3]:.0f} % of "
        f"the comparisons, by 0.06 in {judge[-1]:.0f} %. Corrected by 100 labels it is {min(people):.0f} to "
        f"{max(people):.0f} %, whatever the judge favours."
    )
    write(folder, "labels-difference", sentence, drawing)


def groups(folder: Path) -> None:
    """A hundred answers in twenty groups: what they show, and what they seem to show if groups are not declared."""
    group, size = np.repeat(np.arange(20), 5), 22.0
    rng = np.random.default_rng(5)
    scores = (rng.random(100) < rng.beta(0.7, 0.3, 20)[group]).astype(float)
    by_case, by_group = interval(scores, bounded=True), interval(scores, group, bounded=True)
    drawing = svg.Drawing()
    for place, score in enumerate(scores):
        left, top = place // 5 * (size + 4), place % 5 * size
        drawing.rect(
            left, top, size - 3, size - 3, svg.PASS if score else svg.FAIL, opacity=0.9 if score else 0.3, radius=3
        )
    drawing.text(10 * (size + 4), -10, "each column: five questions about one document (filled: passed)")
    x, y = svg.Scale(0.4, 1, 0, 20 * (size + 4)), 5 * size + 34
    rows = (("as 100 cases", by_case, svg.FAIL), ("as 20 groups", by_group, svg.MAIN))
    for place, (name, found, stroke) in enumerate(rows):
        at = y + 26 * place
        drawing.line((x(found.low or 0), at), (x(found.high or 0), at), stroke, width=4, cap="round")
        drawing.text(-10, at + 4, name, anchor="end", fill=stroke)
    svg.x_axis(drawing, x, y + 44, "pass rate, 95 % interval", top=y - 14)
    sentence = (
        f"A hundred answers about twenty documents; {100 * scores.mean():.0f} % pass, but whole documents go well or "
        f"badly. Taken for 100 cases the interval is {by_case.low:.2f} to {by_case.high:.2f}, taken for 20 groups "
        f"{by_group.low:.2f} to {by_group.high:.2f}."
    )
    write(folder, "groups-one-run", sentence, drawing)


def coverage(folder: Path) -> None:
    """How often an interval holds the truth, by the correlation within groups."""
    correlations = [0.0, 0.1, 0.2, 0.4, 0.6, 0.8]
    group, truth, count = np.repeat(np.arange(40), 5), 0.7, RUNS
    held: dict[str, list[float]] = {"groups declared": [], "as single cases": []}
    for correlation in correlations:
        rng = np.random.default_rng(round(100 * correlation))
        spread = (1 - correlation) / max(correlation, 1e-6)
        chance = rng.beta(truth * spread, (1 - truth) * spread, (count, 40))[:, group]
        scores = (rng.random(chance.shape) < chance).astype(float)
        for name, clusters in (("groups declared", group), ("as single cases", None)):
            found = [interval(row, clusters, bounded=True) for row in scores]
            held[name].append(100 * float(np.mean([(f.low or 0) <= truth <= (f.high or 1) for f in found])))
    drawing, x, y = svg.Drawing(), svg.Scale(0, 0.8, 0, WIDTH, count=4), svg.Scale(50, 100, HEIGHT, 0)
    svg.y_axis(drawing, y, WIDTH, "intervals that hold the truth", label=lambda value: f"{value:.0f} %")
    svg.x_axis(drawing, x, HEIGHT, "correlation within groups of five")
    drawing.line((0, y(95)), (WIDTH, y(95)), svg.INK, dash="4 3")
    strokes = (svg.MAIN, svg.FAIL)
    curves(
        drawing,
        [Curve(name, correlations, held[name], stroke) for name, stroke in zip(held, strokes, strict=True)],
        x,
        y,
    )
    declared, single = held.values()
    sentence = (
        f"How often a 95 % interval of 200 cases in groups of five holds the truth. Taken for single cases: "
        f"{single[2]:.0f} % where the correlation within groups is 0.2 and {single[-1]:.0f} % where it is 0.8. With "
        f"groups declared: {min(declared):.0f} to {max(declared):.0f} %."
    )
    write(folder, "groups-coverage", sentence, drawing)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--only", default="", help="one of them, by its function's name")
    options = parser.parse_args()
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    for draw in (one_run, errors, cases_asked, labels, favours, groups, coverage):
        if options.only in ("", draw.__name__):
            draw(folder)


if __name__ == "__main__":
    main()
