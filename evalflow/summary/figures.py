"""Figures of metrics that declare them, such as precision, computed from the scores' values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evalflow.lazy import pl
from evalflow.protocols import Measured
from evalflow.records import FigureSpec
from evalflow.stats.figures import PREFERENCE_FIGURES, Figure
from evalflow.summary.journal import json_text
from evalflow.summary.rows import Detail
from evalflow.summary.slices import Units
from evalflow.values.label_names import label_name

_SIDES = ("truth", "prediction")
_OF_PAIR = ("lean", "longer")


@dataclass(frozen=True, slots=True)
class Slice:
    """The figures of one unit of `Units`, in the order of tables, and its key."""

    unit: int
    key: Mapping[str, str | None]
    figures: Sequence[Figure]


def figures(cells: pl.LazyFrame, units: Units, metrics: Mapping[str, Measured], seed: int) -> list[Slice]:
    """Compute all figures, unit by unit."""
    specs = {name: metric.figures for name, metric in metrics.items() if metric.figures is not None}
    if not specs:
        return []
    alone = not (units.repeated or units.clustered)
    counted = _counted(cells.filter(pl.col("metric").is_in(list(specs))), alone=alone)
    keys = units.keys
    slices: list[Slice] = []
    for name, spec in specs.items():
        records = decode_values(spec, counted.filter(pl.col("metric") == name))
        for unit, own in units.rows(records):
            if keys[unit]["metric"] == name:
                slices.append(Slice(unit, keys[unit], compute(spec, own, seed)))
    return sorted(slices, key=lambda part: part.unit)


def compute(spec: FigureSpec, counts: pl.DataFrame, seed: int = 0) -> list[Figure]:
    """The figures that a metric declares."""
    from evalflow.stats.classification import classification_figures, label_figures
    from evalflow.stats.figures import mean_figure, preference_figures, reliability_figures

    if spec.kind == "pairwise":
        return preference_figures(counts)
    if spec.kind == "retrieval":
        return [mean_figure(name, counts[name], counts) for name in spec.measures]
    if spec.per_label:
        return label_figures(counts, seed)
    positive = None if spec.positive is None else class_text(spec.positive)
    class_figures = classification_figures(counts, positive, seed)
    return [*class_figures, *reliability_figures(counts, seed)] if spec.confidence else class_figures


def statistics(spec: FigureSpec) -> list[str]:
    """Names of a metric's figures, without those of single classes, which depend on the data."""
    if spec.kind == "pairwise":
        return list(PREFERENCE_FIGURES)
    if spec.kind == "retrieval":
        return list(spec.measures)
    if spec.per_label:
        return ["accuracy"]
    names = ["precision", "recall", "f1"]
    if spec.positive is None:
        names = [f"macro_{name}" for name in names] + [f"weighted_{name}" for name in (*names, "f2")]
    return ["accuracy", *names, "mcc", *(("brier", "ece") if spec.confidence else ())]


def _counted(cells: pl.LazyFrame, *, alone: bool) -> pl.DataFrame:
    """Count equal values.

    Columns: part, metric, value, cluster (the group, else the case: repeats are not new cases), n, clusters. If each
    record is `alone` in its cluster, records with the same value are merged into one row.
    """
    # An undefined score of a pair may have a value, and a panel's score may have none.
    scored = cells.filter((pl.col("status") == "scored") | pl.col("value").is_not_null())
    metric = pl.col("metric").first()
    if alone:
        same = scored.group_by("part", "value", "score").agg(metric, clusters=pl.len()).collect(engine="streaming")
        return same.with_row_index("cluster").with_columns(n=pl.lit(1, pl.UInt32))
    case = pl.when(pl.col("group").is_null()).then("case_id")
    cluster = pl.struct(dataset="dataset", group="group", case=case).alias("cluster")
    counted = scored.group_by("part", cluster, "value", "score").agg(metric, n=pl.len()).collect(engine="streaming")
    return counted.with_columns(clusters=pl.lit(1, pl.UInt32))


def decode_values(spec: FigureSpec, counted: pl.DataFrame) -> pl.DataFrame:
    """The counts of a metric with the contents of their `value` (JSON text) as columns instead.

    Classification: truth and prediction (`class_text`), confidence (null if not stated) and correct; `per_label`
    one row per label, with record (a number), label, truth, prediction, unexpected and unsaid (whether the label was
    absent from the truth, or from the prediction, and so counted as false). Retrieval: one column per measure. Pairs:
    lean and longer.
    """
    values = {value: json.loads(value) for value in counted["value"].drop_nulls().unique().to_list()}
    if spec.kind == "retrieval":
        rows = [[value, *(measured.get(name) for name in spec.measures)] for value, measured in values.items()]
        schema: dict[str, type[pl.DataType]] = dict.fromkeys(spec.measures, pl.Float64)
    elif spec.kind == "pairwise":
        numbers = {value: [pair[name] for name in _OF_PAIR] for value, pair in values.items()}
        rows = [[value, *(None if one is None else float(one) for one in own)] for value, own in numbers.items()]
        schema = dict.fromkeys(_OF_PAIR, pl.Float64)
    elif spec.per_label:
        labels = sorted({label for pair in values.values() for side in _SIDES for label in pair[side]})
        rows = [[value, label, *_of_label(pair, label)] for value, pair in values.items() for label in labels]
        schema = {"label": pl.String, "truth": pl.String, "prediction": pl.String}
        schema |= {"unexpected": pl.Boolean, "unsaid": pl.Boolean}
        counted = counted.with_row_index("record")
    else:
        rows = [
            [value, *(class_text(pair[side]) for side in _SIDES), *_confidence(pair)] for value, pair in values.items()
        ]
        schema = {"truth": pl.String, "prediction": pl.String, "confidence": pl.Float64, "correct": pl.Boolean}
    columns = pl.DataFrame(rows, schema={"value": pl.String, **schema}, orient="row")
    return counted.join(columns, on="value", how="left" if spec.kind == "pairwise" else "inner").drop("value")


def _confidence(pair: Detail) -> tuple[float | None, bool]:
    return pair.get("confidence"), class_text(pair["truth"]) == class_text(pair["prediction"])


def class_text(label: object) -> str:
    """The name of a label as canonical JSON text; the number 3 and the text "3" have the same name."""
    return json_text(label_name(label))


def _of_label(pair: Detail, label: str) -> Sequence[str | bool]:
    truth, prediction = (pair[side] for side in _SIDES)
    return [
        json_text(truth.get(label, False)),
        json_text(prediction.get(label, False)),
        label not in truth,
        label not in prediction,
    ]
