"""What a calibration says, in words for people who do not do statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from evalflow.report.wording import number, p_value, percent, signed
from evalflow.stats.prediction import MIN_LABELS

if TYPE_CHECKING:
    from evalflow.stats.agreement import Agreement
    from evalflow.summary.agreement import Raters
    from evalflow.summary.calibration import CalibrationRow

KEYS: Mapping[str, str] = MappingProxyType(
    {
        "accuracy": "same verdict",
        "sensitivity": "where people say yes or pass, so does the {who}",
        "specificity": "where people say no or fail, so does the {who}",
        "kappa": "beyond chance (kappa)",
        "kappa_weighted": "beyond chance, near misses count less (weighted kappa)",
        "krippendorff_alpha": "same scores (Krippendorff's alpha)",
        "spearman": "same order (Spearman)",
        "spearman_by_group": "same order within a group (Spearman)",
        "kendall": "same order, pair by pair (Kendall)",
        "pearson": "on a straight line (Pearson)",
        "auroc": "a pass above a fail (AUROC; 0.5 is chance)",
    }
)
"""The measures of agreement, in words; {who} is the judge, or the metric where it asks none."""
_SEEN = 0.0005
"""A difference below this is shown as 0."""
_ROUNDING = 1e-9
_SHARES = ("accuracy", "sensitivity", "specificity", "auroc")
_SOMETIMES = ("spearman_by_group", "auroc")


def measured(name: str) -> str:
    """What a measure's values mean."""
    return "0 to 1" if name in _SHARES else "1 is perfect, 0 is chance"


def shown_measures(row: CalibrationRow) -> list[tuple[str, str, Agreement]]:
    """The measures of agreement to show, as name, words and measure, with shares within 0..1.

    Of two classes no near miss can be told, so that weighted kappa is kappa over again; and of yes and no all
    correlations are Spearman's.
    """
    shown: list[tuple[str, str, Agreement]] = []
    for name, words in KEYS.items():
        one = row.agreement[name]
        if name == "kappa_weighted" and row.classes is not None and row.classes.binary:
            continue
        if name in ("kendall", "pearson") and _alike(one, row.agreement["spearman"]):
            continue
        if name in _SOMETIMES and one.value is None:
            continue
        if name in _SHARES and one.low is not None and one.high is not None:
            one = replace(one, low=max(0.0, one.low), high=min(1.0, one.high))
        shown.append((name, words.format(who=row.who), one))
    return shown


def _alike(one: Agreement, other: Agreement) -> bool:
    return other.value is not None and one.value is not None and abs(one.value - other.value) < _ROUNDING


def in_words(row: CalibrationRow) -> list[str]:
    """The finding: how far the judge is off, what its mean comes to, what the labels were worth."""
    return [*_bias(row), *_estimate(row), *_raters(row)]


def _bias(row: CalibrationRow) -> Iterator[str]:
    found = row.corrected
    if found.bias is None:
        return
    who = f"the {row.who}"
    people = "people" if row.people[0] > 1 else "the person who labelled"
    known = found.bias_low is not None and found.bias_high is not None
    span = f" ({who} minus people: {signed(found.bias_low)} to {signed(found.bias_high)})" if known else ""
    if abs(found.bias) < _SEEN:
        yield f"On average {who} scores as high as {people}{span}."
        return
    way = "higher" if found.bias > 0 else "lower"
    told = found.bias_low is not None and found.bias_high is not None and not found.bias_low <= 0 <= found.bias_high
    chance = "" if told else ", which may be chance"
    yield f"On average {who} scores {number(abs(found.bias))} {way} than {people}{span}{chance}."


def _estimate(row: CalibrationRow) -> Iterator[str]:
    found = row.corrected
    if found.estimate is None:
        yield f"There is no corrected estimate: {found.method.removeprefix('none: ')}."
        return
    if not found.n_unlabelled:
        every = "every answer" if not row.apart else f"all {row.named}"
        yield f"People labelled {every}, so that their mean stands, and nothing is left for the {row.who} to tell."
        return
    if found.low is not None and found.high is not None:
        yield (
            f"Had people labelled all {found.n + found.n_unlabelled:,} {row.named}, their mean would be about "
            f"{number(found.estimate)}, and most likely between {number(found.low)} and {number(found.high)}."
        )
    saved = found.labels_saved
    if saved is not None and saved > 0:
        labels = "label" if saved == 1 else "labels"
        yield (
            f"On these labels the {row.who} is worth {saved:,} more {labels}: people alone would need as many for this "
            "interval. Another draw may say otherwise."
        )
    elif saved is not None and found.lambda_:
        yield f"On these labels the {row.who} is worth none: people alone give an interval as narrow."


def _raters(row: CalibrationRow) -> Iterator[str]:
    found, alpha = row.raters, row.agreement["krippendorff_alpha"]
    if found is None or found.alpha.value is None:
        return
    beside = "" if alpha.value is None else f", the {row.who} with them by {number(alpha.value)}"
    yield (
        f"People agree among themselves by {number(found.alpha.value)}{beside} (Krippendorff's alpha); "
        f"no {row.who} can be asked to do better than people do."
    )
    if found.ceiling is not None:
        yield f"Labels as noisy as these let no {row.who} correlate with them by more than {number(found.ceiling)}."
    yield from _alternative(found, row.who)


def _alternative(found: Raters, who: str) -> Iterator[str]:
    test = found.alt_test
    if test.passes is None or test.winning_rate is None:
        return
    few = test.method.partition(": ")[2]
    yield (
        f"The {who} {'may' if test.passes else 'may not'} take a person's place: it can stand in for "
        f"{percent(test.winning_rate)} of them (alternative annotator test{f', {few}' if few else ''})."
    )


def warnings_of(row: CalibrationRow) -> list[str]:
    """Warnings about the estimate, each with what to do about it."""
    return [*_few(row), *_constant(row), *_chosen(row), *_unscored(row)]


def _few(row: CalibrationRow) -> Iterator[str]:
    n = row.corrected.n
    if n < MIN_LABELS and row.tag is None:
        yield (
            f"{n} labelled answer{'' if n == 1 else 's'}: too few to tell what the {row.who} gets wrong; the corrected "
            f"estimate needs {MIN_LABELS}, and 50 are better (calibrate --sample 50)"
        )


def _constant(row: CalibrationRow) -> Iterator[str]:
    labels, scores = row.constant
    if labels and row.corrected.n > 1:
        value = number(row.corrected.human_mean)
        yield (
            f"all {row.corrected.n} labels say the same ({value}): they show how often the {row.who} is wrong about "
            "such answers, and nothing of the others; label more"
        )
    if scores and row.corrected.n + row.corrected.n_unlabelled > 1:
        value = number(row.corrected.judge_mean)
        yield f"the {row.who} gives all answers the score {value}: it tells nothing, and only the labels count"


def _chosen(row: CalibrationRow) -> Iterator[str]:
    found = row.selection
    where = "" if row.tag is None else f" of {row.tag}"
    if found is not None and found.biased:
        told = (
            f"the {row.who}'s mean is {number(found.labelled)} on the labelled answers{where} and {number(found.rest)} "
        )
        told += f"on the others (p {_p(found.p_value)}), so they can hardly have been drawn at random, and the "
        told += "corrected estimate does not hold; draw them with calibrate --sample"
        told += _by_class(row)
        yield told
    if found is not None and row.at_random is None and row.tag is None:
        groups = "1 group" if found.clusters == 1 else f"{found.clusters} groups"
        yield (
            f"the labelled answers are of {groups}: too few to show whether they were drawn at random, which the "
            "corrected estimate rests on; label answers of more groups"
        )
    for one in row.uneven:
        yield (
            f"{percent(one.labelled)} of the answers tagged {one.tag} are labelled and {percent(one.elsewhere)} of the "
            f"others (p {_p(one.p_value)}), so they were hardly drawn at random from all"
        )


def _by_class(row: CalibrationRow) -> str:
    """What holds where labels were chosen by what people thought of the answers."""
    other = row.by_class
    if other is None or other.estimate is None or other.low is None or other.high is None:
        return ""
    return (
        f". If they were chosen by what people thought of them, and not by the {row.who}'s verdict, "
        f"{number(other.estimate)} holds for the others ({number(other.low)} to {number(other.high)}, Rogan-Gladen)"
    )


def _unscored(row: CalibrationRow) -> Iterator[str]:
    n, (failed, labelled) = row.unscored, row.failed
    every = row.corrected.n + row.corrected.n_unlabelled
    if labelled and row.tag is None:
        yield (
            f"{failed} of {every:,} answers have no score by the {row.who}, and {labelled} of these are labelled: the "
            "corrected estimate takes its mean for their score"
        )
    elif failed and row.tag is None:
        have = "1 more answer has" if failed == 1 else f"{failed} more answers have"
        yield (
            f"{have} no score by the {row.who} and no label, so that the corrected estimate is of the others; draw "
            "again: calibrate --sample"
        )
    if n:
        yield f"{n} labelled answer{' has' if n == 1 else 's have'} no score by the {row.who}, and say nothing here"


def _p(value: float | None) -> str:
    text = p_value(value)
    return text if text.startswith("<") else f"= {text}"
