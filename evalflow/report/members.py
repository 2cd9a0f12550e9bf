"""Advice on a panel or a cascade from labels: sentences, keys to paste, tables and pictures."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evalflow.report import svg
from evalflow.report.charts import Picture, draw
from evalflow.report.sweep import cost_chart
from evalflow.report.wording import bracketed, cost, counted, joined, number, percent, signed
from evalflow.stats.arrays import Estimated
from evalflow.stats.paired import Difference
from evalflow.stats.prediction import MIN_LABELS
from evalflow.summary.members import CascadeAdvice, EscalationPoint, PanelAdvice
from evalflow.summary.verdicts import side_of

_WAYS = {
    "majority": "by majority",
    "best member": "by the best member alone",
    "weighted": "by weights",
    "dawid_skene": "by Dawid and Skene's model, with all answers",
}


@dataclass(frozen=True, slots=True)
class MemberAdvice:
    """Advice on a judge's members for one metric and target.

    If labels do not suffice, `advice` is None and `why` says why. `keys` maps a member's name to its key in the judge's
    YAML; `place` is the key path of the judge, such as `judge`.
    """

    kind: str
    keys: Mapping[str, str]
    place: str
    advice: PanelAdvice | CascadeAdvice | None
    why: str = ""

    def lines(self) -> list[str]:
        """Findings in sentences."""
        if isinstance(self.advice, PanelAdvice):
            return [*_panel(self.advice, self.keys, self.place)]
        if self.advice is not None:
            return [*_cascade(self.advice, self.place)]
        return [f"No advice on the members of this {self.kind}: {self.why}."]

    def pictures(self) -> list[Picture]:
        """Each member's errors, or agreement against cost."""
        if isinstance(self.advice, PanelAdvice):
            return [_errors_picture(self.advice)]
        return [] if self.advice is None or len(self.advice.points) < 2 else [_cost_picture(self.advice)]

    def document(self) -> dict[str, object]:
        about: dict[str, object] = {"kind": self.kind, "members": dict(self.keys), "why": self.why or None}
        if isinstance(self.advice, PanelAdvice):
            return about | _panel_document(self.advice)
        return about if self.advice is None else about | _cascade_document(self.advice)


def too_few(n: int) -> str:
    """Says that n labels are too few for advice."""
    return f"{counted(n, 'labelled answer')} that its members scored, and it takes {MIN_LABELS}, in two groups or more"


def _panel(advice: PanelAdvice, keys: Mapping[str, str], place: str) -> Iterator[str]:
    yield f"Each member on {counted(advice.n, 'labelled answer')} that all scored, by what the labels say:"
    for name, rows in zip(advice.names, advice.confusion, strict=True):
        clauses = [
            f"of {share.n:,} {called} it calls {percent(share.value)} so{bracketed(share.low, share.high)}"
            for called, row, at in zip(advice.classes, rows, range(len(rows)), strict=True)
            for share in [row[at]]
            if share.value is not None
        ]
        yield f"{name}: {'; '.join(clauses)}."
    for one, other, excess in advice.shared:
        if side_of(0, excess.low, excess.high) > 0:
            yield (
                f"{one} and {other} make the same mistakes: they agree on {percent(excess.value)}"
                f"{bracketed(excess.low, excess.high)} more of the answers than judges that err independently would, "
                "so together they tell less than two; take one of another family."
            )
    yield (
        "Right on labels that chose no weights (cross-validated): "
        + "; ".join(
            f"{_WAYS[name]} {number(way.value)}{bracketed(way.low, way.high)}" for name, way in advice.ways.items()
        )
        + "."
    )
    yield f"Weights against majority: {_gain(advice.gain)}."
    for name in advice.useless:
        yield f"{name} is no better than chance; remove it."
    name, alone = advice.alone
    if side_of(0, alone.low, alone.high) > 0:
        better = f"{signed(alone.difference)} right{bracketed(alone.low, alone.high, signed)}"
        yield f"{name} alone is better than all together by weights, {better}: ask it alone."
        return
    if side_of(0, advice.gain.low, advice.gain.high) <= 0:
        yield "Keep the vote as it is."
        return
    weights = ", ".join(f"{keys.get(name, name)}: {max(weight, 0.01):.2f}" for name, weight in advice.weights.items())
    override = shlex.join([f"++{place}.vote=weighted", f"++{place}.weights={{{weights}}}"])
    yield f"To vote by weights: {override}"


def _gain(gain: Difference) -> str:
    if not gain.difference:
        return "the same share right, so they are not better"
    span = bracketed(gain.low, gain.high, signed)
    side = side_of(0, gain.low, gain.high)
    if side > 0:
        return f"{signed(gain.difference)} right{span}, so they are better"
    return f"{signed(gain.difference)} right{span}, so they are {'worse' if side < 0 else 'not shown to be better'}"


def _cascade(advice: CascadeAdvice, place: str) -> Iterator[str]:
    advised, current = advice.advised, advice.points[-1]
    on = counted(advice.n, "labelled answer")
    yield f"escalate_below {current.threshold:g}, as it is, {_point(current)}, on {on}."
    if advised is current:
        yield "No lower threshold agrees as well: leave it."
    else:
        yield f"escalate_below {advised.threshold:g} {_point(advised)}; it is the cheapest within a standard error."
        accuracy = advice.validated
        span_of_gain = bracketed(advice.gain.low, advice.gain.high, signed)
        yield (
            f"Such a choice, made on other labels (cross-validated), agrees in {number(accuracy.value)}"
            f"{bracketed(accuracy.low, accuracy.high)}: {signed(advice.gain.difference)}{span_of_gain} "
            "against the one as it is."
        )
        yield f"To escalate less: {place}.escalate_below={advised.threshold:g}"
    if current.threshold < 1:
        yield (
            f"Thresholds above {current.threshold:g} are not known, since {advice.names[1]} was asked below it only; "
            f"{place}.escalate_below=1 asks it for every answer."
        )


def _point(point: EscalationPoint) -> str:
    paid = "" if point.cost_usd is None else f" at {cost(point.cost_usd)} an answer"
    agrees = f"{number(point.agreement.value)}{bracketed(point.agreement.low, point.agreement.high)}"
    return f"escalates {percent(point.escalated)} of the answers{paid} and agrees with labels in {agrees}"


def _errors_picture(advice: PanelAdvice) -> Picture:
    points: list[svg.IntervalPoint] = []
    for name, rows in zip(advice.names, advice.confusion, strict=True):
        for at, called in enumerate(advice.classes):
            points.append(_interval_point(joined(name, f"labels say {called}"), rows[at][at]))
    points += [_interval_point(_WAYS[name], way) for name, way in advice.ways.items()]
    sentence = (
        "How often each member says what the labels say, by what these say, and how often they are right together, "
        "cross-validated, with 95 % intervals."
    )
    return draw("Members and labels", sentence, svg.interval_chart(points, [0, 1], "share right"))


def _cost_picture(advice: CascadeAdvice) -> Picture:
    priced = all(point.cost_usd is not None for point in advice.points)
    points = [
        (
            (point.cost_usd or 0.0) if priced else point.escalated,
            _interval_point(f"{point.threshold:g}", point.agreement),
        )
        for point in advice.points
    ]
    across = "dollars an answer" if priced else "share of answers escalated"
    sentence = (
        f"Each dot is a value of escalate_below: {across} across, upwards the share of labelled answers on which the "
        f"cascade says what the labels say, with its 95 % interval. Advised is {advice.advised.threshold:g}."
    )
    return draw("Cost against agreement", sentence, cost_chart(points, "agreement", across))


def _interval_point(name: str, estimate: Estimated) -> svg.IntervalPoint:
    return svg.IntervalPoint(name, estimate.value, estimate.low, estimate.high)


def _difference(gain: Difference) -> dict[str, object]:
    return {"value": gain.difference, "ci_low": gain.low, "ci_high": gain.high, "method": gain.method}


def _panel_document(advice: PanelAdvice) -> dict[str, object]:
    def cells(rows: Sequence[Sequence[Estimated]]) -> list[list[dict[str, object]]]:
        return [[{**share.document(), "n": share.n} for share in row] for row in rows]

    return {
        "n": advice.n,
        "classes": list(advice.classes),
        "confusion": {name: cells(rows) for name, rows in zip(advice.names, advice.confusion, strict=True)},
        "weights": dict(advice.weights),
        "useless": list(advice.useless),
        "ways": {name: way.document() for name, way in advice.ways.items()},
        "weights_against_majority": _difference(advice.gain),
        "best_member": advice.alone[0],
        "best_member_against_weights": _difference(advice.alone[1]),
        "shared_errors": [{"members": [one, other], **excess.document()} for one, other, excess in advice.shared],
    }


def _cascade_document(advice: CascadeAdvice) -> dict[str, object]:
    def point(one: EscalationPoint) -> dict[str, object]:
        about = {"escalate_below": one.threshold, "escalated": one.escalated, "cost_usd": one.cost_usd}
        return {**about, "agreement": one.agreement.document()}

    return {
        "n": advice.n,
        "points": [point(one) for one in advice.points],
        "advised": advice.advised.threshold,
        "cross_validated": advice.validated.document(),
        "against_current": _difference(advice.gain),
    }
