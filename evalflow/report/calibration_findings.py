"""Findings and warnings of a calibration in sentences, and its pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from evalflow.labels.sheet import advised_size
from evalflow.lazy import np
from evalflow.report import svg
from evalflow.report.charts import Picture, draw
from evalflow.report.wording import ADJUSTMENTS, bracketed, counted, interval, number, p_value, percent, signed
from evalflow.stats.arrays import Estimated
from evalflow.stats.intervals import interval as mean_interval
from evalflow.stats.prediction import MIN_LABELS, CorrectedMean
from evalflow.stats.raters import EPSILON, AlphaComparison, AltTest
from evalflow.summary.agreement import Classes
from evalflow.summary.calibration import MOST_MISSING, CalibrationRow, MissingLabels
from evalflow.summary.verdicts import Replacement, agrees_more, is_biased_sample, is_limit, side_of

KEYS: Mapping[str, str] = MappingProxyType(
    {
        "accuracy": "same verdict",
        "sensitivity": "where labels say yes or pass, so does the {who}",
        "specificity": "where labels say no or fail, so does the {who}",
        "kappa": "beyond chance (kappa)",
        "kappa_weighted": "beyond chance, near misses count less (weighted kappa)",
        "krippendorff_alpha": "same scores (Krippendorff's alpha)",
        "spearman": "same order (Spearman)",
        "spearman_by_group": "same order within a group (Spearman)",
        "kendall": "same order, pair by pair (Kendall)",
        "pearson": "on a straight line (Pearson)",
        "auroc": "a pass above a fail (AUROC; 0.5 is chance)",
    }
)  # the measures of agreement, in words; {who} is "judge", or "metric" without a judge
_SEEN = 0.0005  # a difference below this is shown as 0
_ROUNDING = 1e-9
_SHARES = ("accuracy", "sensitivity", "specificity", "auroc")
_SOMETIMES = ("spearman_by_group", "auroc")
_BINS = 5
_FEW_VALUES = 3
_SIDE = 240


def measured(name: str) -> str:
    """The range of a measure's values, for readers."""
    return "0 to 1" if name in _SHARES else "1 is perfect, 0 is chance"


def shown_measures(row: CalibrationRow) -> list[tuple[str, str, Estimated]]:
    """The measures to show (name, words, value): one kappa for two classes, one correlation for yes and no."""
    shown: list[tuple[str, str, Estimated]] = []
    for name, phrase in KEYS.items():
        one = row.agreement[name]
        if name == "kappa_weighted" and row.classes is not None and row.classes.binary:
            continue
        value, other = one.value, row.agreement["spearman"].value
        alike = other is not None and value is not None and abs(value - other) < _ROUNDING
        if name in ("kendall", "pearson") and alike:
            continue
        if name in _SOMETIMES and one.value is None:
            continue
        if name in _SHARES and one.low is not None and one.high is not None:
            one = replace(one, low=max(0.0, one.low), high=min(1.0, one.high))
        shown.append((name, phrase.format(who=row.who), one))
    return shown


def in_words(row: CalibrationRow) -> list[str]:
    """The judge's bias, the corrected mean, what labels are missing, agreement among people, and labels apart."""
    return [
        *_bias(row),
        *_estimate(row),
        *_resolved(row),
        *_missing(row),
        *_undefined(row),
        *_raters(row),
        *_apart(row),
    ]


def _bias(row: CalibrationRow) -> Iterator[str]:
    mean = row.corrected
    if mean.bias is None:
        return
    who = f"the {row.who}"
    known = mean.bias_low is not None and mean.bias_high is not None
    span = f" ({who} minus the labels: {interval(mean.bias_low, mean.bias_high, signed)})" if known else ""
    if abs(mean.bias) < _SEEN:
        yield f"On average {who} scores as high as the labels{span}."
        return
    way = "higher" if mean.bias > 0 else "lower"
    chance = "" if side_of(0, mean.bias_low, mean.bias_high) else ", which may be chance"
    yield f"On average {who} scores {number(abs(mean.bias))} {way} than the labels{span}{chance}."


def _estimate(row: CalibrationRow) -> Iterator[str]:
    mean = row.corrected
    if mean.estimate is None and _has_warning(row):
        return
    if mean.estimate is None:
        yield f"There is no corrected estimate: {mean.method.removeprefix('none: ')}."
        return
    if not mean.n_unlabelled:
        every = f"All {row.named} are" if row.left_out else "Every answer is"
        yield f"{every} labelled, so the mean of the labels stands and the {row.who} adds nothing."
        return
    if mean.low is not None and mean.high is not None:
        n = f"{mean.n + mean.n_unlabelled:,}"
        if mean.finite_low is not None and mean.finite_high is not None:
            yield (
                f"If all {n} {row.named} were labelled, the labels' mean for exactly these would most likely be "
                f"between {number(mean.finite_low)} and {number(mean.finite_high)}."
            )
        yield (
            f"For answers like these {n}, the labels' mean is about {number(mean.estimate)}, most likely between "
            f"{number(mean.low)} and {number(mean.high)}."
        )
    saved = mean.labels_saved
    if saved is not None and saved > 0:
        yield (
            f"The {row.who} saves {counted(saved, 'label')}: without it, as many more are needed for an interval "
            "as narrow. With other labels this number may differ."
        )
    elif saved is not None and mean.lambda_:
        wide = "as narrow" if not saved else f"as narrow with {counted(-saved, 'label')} fewer"
        yield f"The {row.who} saves no labels: without it the interval is {wide}."


def _resolved(row: CalibrationRow) -> Iterator[str]:
    if row.resolved:
        answers = "1 answer" if row.resolved == 1 else f"{row.resolved:,} answers"
        yield f"For {answers} the resolution of a disagreement counts instead of the labels."


def _missing(row: CalibrationRow) -> Iterator[str]:
    missing = row.missing
    if missing is not None and missing.share <= MOST_MISSING:
        yield f"{_share_missing(missing)}."


def _undefined(row: CalibrationRow) -> Iterator[str]:
    undefined = row.undefined
    if undefined is not None:
        of = f"of {counted(undefined.answers, 'labelled answer')}"
        yield (
            f"Nothing to score, {of}: labels and the {row.who} agree on {undefined.both}, labels alone say so of "
            f"{undefined.people_alone}, the {row.who} alone of {undefined.judge_alone}. None of these is in a mean."
        )


def _share_missing(missing: MissingLabels) -> str:
    asked, share = round(missing.n / missing.share), percent(missing.share)
    return f"{share} of the answers that people were asked about have no label ({missing.n:,} of {asked:,})"


def _many_missing(row: CalibrationRow) -> Iterator[str]:
    missing = row.missing
    if missing is None or missing.share <= MOST_MISSING:
        return
    text = _share_missing(missing)
    if row.unusable:
        yield text
    elif missing.worst is None or missing.best is None:
        yield f"{text}; the scale has no ends, so nothing shows how far these could move the corrected mean"
    elif missing.worst.estimate is None or missing.best.estimate is None:
        yield text
    else:
        yield (
            f"{text}. If all of these were as bad as can be, the labels' mean would be about {_bound(missing.worst)}; "
            f"if all were as good as can be, {_bound(missing.best)}"
        )


def _bound(mean: CorrectedMean) -> str:
    return f"{number(mean.estimate)}{bracketed(mean.low, mean.high)}"


def _apart(row: CalibrationRow) -> Iterator[str]:
    apart = row.apart
    if apart is None:
        return
    who = ", ".join(f"{name} {n:,}" for name, n in apart.by.items())
    known = [(KEYS[name], apart.agreement[name]) for name in ("accuracy", "kappa", "spearman")]
    texts = [f"{phrase} {_value(one)}" for phrase, one in known if one.value is not None]
    agreed = f": {'; '.join(texts)}" if texts else ""
    yield (
        f"{counted(sum(apart.by.values()), 'label')} ({who}) of {counted(apart.n_answers, 'answer')} were given with "
        f"the {row.who}'s score in view, or on answers picked by hand. They enter no mean, and their agreement with "
        f"the {row.who} counts apart{agreed}."
    )


def _value(one: Estimated) -> str:
    return f"{number(one.value)}{bracketed(one.low, one.high)}"


def _raters(row: CalibrationRow) -> Iterator[str]:
    raters = row.raters
    if raters is None or raters.alpha.value is None:
        return
    yield " ".join(_alphas(raters.alphas, row.who))
    if is_limit(raters.ceiling):
        limit = f"limit how well a {row.who} can correlate with their means: to {_value(raters.ceiling)}"
        yield f"Labels as noisy as these {limit}."
    if raters.replaces.may is not None:
        yield " ".join(_alt_test(raters.alt_test, raters.replaces, row.who))


def _alphas(alphas: AlphaComparison, who: str) -> Iterator[str]:
    on = f"On the {counted(alphas.people.n, 'answer')} with several labels"
    if alphas.judge.value is None:
        yield f"{on}, the agreement of two raters is {_value(alphas.people)} (Krippendorff's alpha)."
        return
    yield (
        f"{on}, the agreement of two raters is {_value(alphas.people)}, and that of a rater and the {who} "
        f"{_value(alphas.judge)} (Krippendorff's alpha)."
    )
    d = alphas.difference
    if way := agrees_more(alphas):
        than = f"The {who} agrees with raters {way} than they do with each other"
        yield f"{than} (difference {signed(d.value)}, {interval(d.low, d.high, signed)})."
    elif d.low is not None and d.high is not None:
        yield f"Which is higher is not clear (difference {signed(d.value)}, {interval(d.low, d.high, signed)})."


def _alt_test(test: AltTest, replacement: Replacement, who: str) -> Iterator[str]:
    """The alternative annotator test in words.

    It only shows that the judge is behind a rater by less than the allowance.
    """
    notes = test.method.partition(": ")[2]
    allowed = f"{percent(EPSILON).removesuffix(' %')} points"
    how = f"{f'with {notes}; ' if notes else ''}p-values adjusted by {ADJUSTMENTS['by']}"
    yield (
        f"Alternative annotator test: the {who} is shown to be less than {allowed} behind {replacement.won} of "
        f"{replacement.people} raters; {allowed} are the test's allowance ({how})."
    )
    if test.advantage is not None and test.behind is not None:
        person, judge = 1 - test.advantage, 1 - test.advantage - test.behind
        yield (
            f"The {who} is closer than the rater left out to the labels of the others on {percent(judge)} of the "
            f"answers, and less close on {percent(person)}."
        )
    if replacement.may:
        yield f"The {who} may replace a rater if being {allowed} behind is acceptable."
    elif not replacement.agrees:
        yield f"But it agrees with raters no more than by chance, so this does not show that the {who} can replace one."
    else:
        yield f"That is less than half of them, so this does not show that the {who} can replace a rater."


def warnings_of(row: CalibrationRow) -> list[str]:
    """Warnings about the estimate, each with what to do about it."""
    return [*_poor_labels(row), *_many_missing(row), *_biased_sample(row), *_unscored(row)]


def _has_warning(row: CalibrationRow) -> bool:
    """Whether a warning already says that there are too few labels."""
    return row.corrected.n < MIN_LABELS and row.tag is None and not row.unusable


def _poor_labels(row: CalibrationRow) -> Iterator[str]:
    n, c = row.corrected.n, row.corrected
    if _has_warning(row):
        yield (
            f"{counted(n, 'labelled answer')}: too few to measure the bias of the {row.who}; the corrected estimate "
            f"needs {MIN_LABELS}{_more_labels(n + c.n_unlabelled)}"
        )
    labels, scores = row.constant
    if labels and row.all_tied:
        yield f"raters are tied on all {n} answers, so their labels do not show how the {row.who} does; decide the ties"
    elif labels and n > 1:
        yield (
            f"all {n} labels are the same ({number(c.human_mean)}): they do not show how the {row.who} does on other "
            "answers; label more"
        )
    if scores and n + c.n_unlabelled > 1:
        yield f"the {row.who} gives every answer the score {number(c.judge_mean)}, so only the labels count"


def _more_labels(answers: int) -> str:
    """How a run with so many answers gets enough labels."""
    if answers < MIN_LABELS:
        return f", and the run has {counted(answers, 'answer')}: evaluate more cases"
    size = advised_size(answers)
    return f"; label {f'all {size}' if size == answers else f'{size} or more'} (calibrate --sample {size})"


def _biased_sample(row: CalibrationRow) -> Iterator[str]:
    if row.declared_unusable and row.tag is None:
        size = advised_size(row.corrected.n + row.corrected.n_unlabelled)
        yield f"label answers of this run, which correct its mean: calibrate --sample {size}"
    bias = row.sampling_bias
    where = "" if row.tag is None else f" of {row.tag}"
    more = "" if row.tag else ": only labels of a random sample correct a mean"
    if bias is not None and is_biased_sample(bias):
        yield (
            f"the {row.who}'s mean is {number(bias.labelled)} on the labelled answers{where} and {number(bias.rest)} "
            f"on the others (p {_p(bias.p_value)}){more}{_by_class(row)}"
        )
    if bias is not None and row.at_random is None and row.tag is None:
        yield (
            f"the labelled answers are of {counted(bias.clusters or 0, 'group')}: too few to show whether they are a "
            "random sample, which the corrected estimate assumes; label answers of more groups"
        )
    for one in row.uneven:
        yield (
            f"{percent(one.labelled)} of the answers tagged {one.tag} are labelled and {percent(one.elsewhere)} of the "
            f"others (p {_p(one.p_value)}, {ADJUSTMENTS['holm']})"
        )


def _by_class(row: CalibrationRow) -> str:
    """The estimate if answers to label were chosen by the raters' verdict on them."""
    other = row.by_class
    if other is None or other.value is None or other.low is None or other.high is None:
        return ""
    return (
        f". If they were chosen by what raters thought of them, and not by the {row.who}'s verdict, the estimate for "
        f"the others is {number(other.value)} ({interval(other.low, other.high)}, Rogan-Gladen)"
    )


def _unscored(row: CalibrationRow) -> Iterator[str]:
    n, (failed, labelled) = row.unscored, row.failed
    every = row.corrected.n + row.corrected.n_unlabelled
    if labelled and row.tag is None:
        yield (
            f"{failed} of {every:,} answers have no score by the {row.who}, and {labelled} of these are labelled: the "
            "corrected estimate uses its mean as their score"
        )
    elif failed and row.tag is None:
        have = "1 more answer has" if failed == 1 else f"{failed} more answers have"
        yield (
            f"{have} no score by the {row.who} and no label, so the corrected estimate is of the others; draw again: "
            "calibrate --sample"
        )
    if n:
        yield f"{n} labelled answer{' has' if n == 1 else 's have'} no score by the {row.who}, and are not used"


def _p(value: float | None) -> str:
    text = p_value(value)
    return text if text.startswith("<") else f"= {text}"


def calibration_pictures(row: CalibrationRow) -> list[Picture]:
    """Means, also by tag; a reliability diagram for graded scores; a confusion matrix for classes."""
    candidates = [means_picture(row), _tags_picture(row), _reliability_picture(row), _matrix_picture(row)]
    return [picture for picture in candidates if picture is not None]


def means_picture(row: CalibrationRow) -> Picture:
    """The means of the judge, corrected, and of the labels, each with its interval."""
    c, who = row.corrected, row.who
    points = [
        svg.IntervalPoint(f"{who} alone", c.judge_mean, row.judged.low, row.judged.high),
        svg.IntervalPoint("labels alone", c.human_mean, c.human_low, c.human_high),
        svg.IntervalPoint(f"{who} corrected by labels", c.estimate, c.low, c.high),
    ]
    sentence = (
        f"The mean of {row.metric} over all {c.n + c.n_unlabelled:,} {row.named}, by the {who} alone, by the {c.n:,} "
        f"labelled answers alone, and by both together, with 95 % intervals. The interval of the {who} alone does not "
        "include its bias."
    )
    return draw(f"{who.capitalize()} and labels", sentence, _intervals(points, row))


def _tags_picture(row: CalibrationRow) -> Picture | None:
    points: list[svg.IntervalPoint] = []
    for one in (row, *row.tags):
        c = one.corrected
        if c.estimate is not None:
            points.append(svg.IntervalPoint(f"{one.tag or 'all answers'} ({c.n:,})", c.estimate, c.low, c.high))
    if len(points) < 2:
        return None
    sentence = "The corrected mean by tag, with its 95 % interval; in brackets the number of labelled answers."
    return draw("Corrected, by tag", sentence, _intervals(points, row))


def _reliability_picture(row: CalibrationRow) -> Picture | None:
    """The labels' mean by the judge's score; only for graded scores in 0..1."""
    bins = reliability_bins(row)
    if not bins:
        return None
    worst = max(bins, key=lambda one: abs(one["human"] - one["judge"]))
    sentence = (
        f"Labelled answers in groups by the {row.who}'s score: across its mean, upwards that of the labels, with 95 % "
        f"intervals. On the dashed line both are equal. The largest difference: where the {row.who} says "
        f"{number(worst['judge'])}, labels say {number(worst['human'])} ({worst['n']} answers)."
    )
    drawing = svg.Drawing()
    x, y = svg.Scale(0, 1, 0, _SIDE), svg.Scale(0, 1, _SIDE, 0)
    svg.y_axis(drawing, y, _SIDE, "labels")
    svg.x_axis(drawing, x, _SIDE, row.who, top=0)
    drawing.line((0, _SIDE), (_SIDE, 0), svg.MUTED, dash="4 3")
    for one in bins:
        across = x(one["judge"])
        if one["low"] is not None:
            drawing.line((across, y(one["low"])), (across, y(one["high"])), svg.MAIN, width=2.5, opacity=0.45)
        drawing.dot(across, y(one["human"]))
    return draw("What a score is worth", sentence, drawing)


def reliability_bins(row: CalibrationRow) -> list[dict[str, Any]]:
    """Labelled answers in five groups of equal size by the judge's score: n, the means judge and human, low and high.

    Each of fewer answers is a group. Low and high are None if all labels are equal. Empty if scores leave 0..1 or have
    at most three values.
    """
    labelled = row.answers.filter(row.answers["human"].is_not_null()).sort("score")
    judge, human, clusters = (labelled[name].to_numpy() for name in ("score", "human", "cluster"))
    if np.unique(judge).size <= _FEW_VALUES or judge.min() < 0 or judge.max() > 1:
        return []
    bins: list[dict[str, Any]] = []
    for part in np.array_split(np.arange(judge.size), min(_BINS, judge.size)):
        several = np.unique(clusters[part]).size < part.size
        known = mean_interval(human[part], clusters[part] if several else None, bounded=True)
        means = {"judge": float(judge[part].mean()), "human": float(human[part].mean())}
        bins.append({"n": int(part.size), **means, "low": known.low, "high": known.high})
    return bins


def _matrix_picture(row: CalibrationRow) -> Picture | None:
    classes = row.classes
    if classes is None:
        return None
    counts = classes.matrix()
    total, same = round(sum(map(sum, counts))), sum(counts[i][i] for i in range(len(counts)))
    names = ["fail", "pass"] if classes.by_threshold else [f"{level:g}" for level in classes.levels]
    how = " Pass and fail are those of the metric's threshold." if classes.by_threshold else ""
    sentence = (
        f"{row.who.capitalize()} and labels agree on {same:,.10g} of {total:,} labelled answers.{how}{_tied(classes)}"
    )
    return draw("Who says what", sentence, svg.confusion_chart(names, counts, down="labels", across=row.who))


def _tied(classes: Classes) -> str:
    """How answers on which raters are tied count; "" if there are none."""
    if not classes.tied:
        return ""
    count = "counts" if classes.tied == 1 else "count"
    return f" {counted(classes.tied, 'answer')} on which raters are tied {count} half."


def _intervals(points: list[svg.IntervalPoint], row: CalibrationRow) -> svg.Drawing:
    return svg.interval_chart(points, [0, 1] if row.traits.bounded else None, row.metric)
