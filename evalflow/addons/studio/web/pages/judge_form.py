"""The forms of a judge: one model, several that vote or are asked in turn, or text overlap; and a trial of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from nicegui import ui

from evalflow.addons.studio.web.pages.metric_trial import CaseFields, show_trial
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import Saving, edited
from evalflow.addons.studio.web.ui.endpoint import ADDRESS, CALLED, KEY, MODEL, PARAMETERS, by_problem, endpoint_fields
from evalflow.addons.studio.web.ui.faults import reveal
from evalflow.addons.studio.web.ui.naming import TitleField
from evalflow.addons.studio.web.ui.parts import button, link_button, text
from evalflow.addons.studio.web.ui.visitor import may
from evalflow.addons.studio.work import judges
from evalflow.addons.studio.work.judges import StoredJudge
from evalflow.addons.studio.work.metric_trial import TriedJudge, try_judge
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import Problem, UserError
from evalflow.values.jsonvalues import parsed

_LINES = {
    "model": MODEL,
    "base_url": ADDRESS,
    "api_key_env": replace(KEY, help=f"{KEY.help} Empty: no key."),
}
MODES = {
    "json_schema": "JSON schema",
    "tools": "Tool call",
    "json": "JSON",
    "md_json": "Plain text, for models without structured output",
}
"""Ways to tell a judge the format of its replies."""
_PRICES = {
    "input_per_million": forms.About("Price of input", "US dollars for a million tokens.", "0.40"),
    "output_per_million": forms.About("Price of output", "US dollars for a million tokens.", "1.60"),
}
_VOTES = {
    "mean": "The mean of their scores",
    "weighted": "The mean by weights",
    "median": "The median",
    "majority": "The most frequent score",
}
_ESCALATE = forms.About(
    "Ask the next below", "The next judge is asked if the probability of a verdict is below this.", "0.8", required=True
)
_TWO = "Two judges or more"
_SAMPLE = ("What does a library card cost?", "It costs 40 pounds a year.")
_TRIED_WITH = "coherence"


@dataclass(frozen=True, slots=True)
class JudgeChoices:
    """Choices of the forms: connections (None: any address), members, and metrics and datasets to try a judge with.

    Attributes:
        members, metrics, datasets: Their titles by name.
        taken: The names that a new judge cannot have.
    """

    connections: Sequence[str] | None
    members: Mapping[str, str]
    metrics: Mapping[str, str]
    datasets: Mapping[str, str]
    taken: Collection[str] = ()


def judge_form(workspace: Workspace, kind: str, stored: StoredJudge | None, choices: JudgeChoices) -> None:
    """The form of a judge of a kind; of a new one if `stored` is None."""
    made = {"panel": _MembersForm, "cascade": _MembersForm, "embedded": _EmbeddedForm}.get(kind, _ModelForm)
    made(workspace, kind, stored, choices)


class _JudgeForm:
    """The common part of the forms. Keys without a field are kept."""

    def __init__(self, workspace: Workspace, kind: str, stored: StoredJudge | None, choices: JudgeChoices) -> None:
        self._workspace, self._kind, self._stored, self._choices = workspace, kind, stored, choices
        self._config: Mapping[str, Any] = stored.config if stored else {}
        self._fields: dict[str, forms.Field] = {}
        with ui.element("div").classes("beside"):
            with forms.form(locked=not may("edit")):
                title, name = (stored.title, stored.name) if stored else ("", "")
                self._title = TitleField("judge", "Careful", choices.taken, title, name)
                self._fields |= self._title.fields
                self._build()
                about = forms.About(
                    "Description", "One sentence for those who choose it.", "Strict on facts, and cheap."
                )
                self._description = forms.line(about, stored.description if stored else "")
                self._fields["judge.description"] = self._description
                if may("edit"):
                    with ui.element("div").classes("actions"):
                        self._button = button("Save", self._save, kind="primary")
                        link_button("Cancel", "/judges")
            if may("edit"):
                trial_card(workspace, choices, self._tried, self._fields)
        self._saving = Saving(edited(judges.get_judge, workspace, judge_content, stored), f"/judges/{name}")

    def _build(self) -> None:
        raise NotImplementedError

    def _read(self) -> dict[str, Any]:
        raise NotImplementedError

    def _tried(self) -> TriedJudge:
        return TriedJudge(self._title.name or "judge_trial", self._read())

    async def _save(self) -> None:
        with forms.faults_shown(self._fields):
            name, title = self._title.read(self._fields)
            config, description = self._read(), forms.written(self._description) or ""

            def work(version: int) -> StoredJudge:
                if self._stored is None:
                    return judges.create_judge(self._workspace, name, config, description, title)
                return judges.update_judge(self._workspace, name, version, config, description, title)

            mine = {"title": title, **config, "description": description}
            await self._saving.save(work, mine, self._fields, self._button, lambda _: forms.leave("/judges"))


class _ModelForm(_JudgeForm):
    """One model behind an OpenAI-compatible endpoint."""

    def _build(self) -> None:
        self._endpoint = endpoint_fields(_LINES, self._config, self._choices.connections)
        self._fields |= by_problem("judge", self._endpoint)
        about = forms.About("Reply format", "How the model is told the format: JSON schema, if it supports that.")
        self._fields["judge.mode"] = self._mode = forms.pick(about, MODES, self._config.get("mode", "json_schema"))
        help = "G-Eval then weights the grades; otherwise it takes one grade, or the mean of samples."
        about = forms.About("Use token probabilities", help)
        self._logprobs = forms.tick(about, bool(self._config.get("logprobs")))
        more = self._config.get("parameters")
        self._parameters = forms.area(PARAMETERS, "" if more is None else json.dumps(more, ensure_ascii=False))
        self._fields["judge.parameters"] = self._parameters
        price: Mapping[str, Any] = self._config.get("price") or {}
        with forms.pair():
            self._prices = {key: forms.number_field(about, price.get(key)) for key, about in _PRICES.items()}
        self._fields |= {f"price.{key}": field for key, field in self._prices.items()}

    def _read(self) -> dict[str, Any]:
        values: dict[str, Any] = {key: forms.written(field) for key, field in self._endpoint.items()}
        values["parameters"] = _parameters(forms.written(self._parameters))
        prices = {key: field.value for key, field in self._prices.items()}
        given = any(value is not None for value in prices.values())
        values |= {"mode": self._mode.value, "logprobs": bool(self._logprobs.value), "price": prices if given else None}
        gone = () if self._choices.connections is None else CALLED
        kept = {**self._config, "kind": "openai", **values}
        return {key: value for key, value in kept.items() if key not in gone and (key != "model" or value)}


def _parameters(content: str | None) -> Any:
    try:
        return None if content is None else parsed(content.encode())
    except ValueError as error:
        raise UserError(Problem(f"not valid JSON: {error}", "judge.parameters", "texts in double quotes")) from None


class _MembersForm(_JudgeForm):
    """Several judges: a panel votes, a cascade asks one after the other.

    Members defined in place, as by an import, are kept.
    """

    def _build(self) -> None:
        named = self._config.get("members")
        self._members: forms.Field | None = None
        if named is None or isinstance(named, list):
            chosen = cast("list[str]", named or [])
            order = " The first is asked first: choose the cheapest first." if self._kind == "cascade" else ""
            about = forms.About("Members", f"{_TWO}.{order}", required=True)
            options = {**self._choices.members, **{name: name for name in chosen if name not in self._choices.members}}
            self._members = forms.several(about, options, chosen)
            self._fields["judge.members"] = self._members
        else:
            text(f"Members: {', '.join(cast('Mapping[str, Any]', named))}", "p")
        if self._kind == "panel":
            vote = self._config.get("vote", "mean")
            self._rule: forms.Field = forms.pick(forms.About("Vote", required=True), _VOTES, vote)
            self._fields["judge.vote"] = self._rule
            self._weights: dict[str, ui.number] = {}
            self._weighing = ui.element("div")
            self._show_weights()
            for field in filter(None, (self._members, self._rule)):
                field.on_value_change(self._show_weights)
        else:
            self._rule = forms.number_field(_ESCALATE, self._config.get("escalate_below", 0.8))
            self._fields["judge.escalate_below"] = self._rule

    def _read(self) -> dict[str, Any]:
        if self._members is not None and len(self._members.value or []) == 1:
            raise UserError(Problem("one judge alone has nobody to vote with or to ask next", "judge.members", _TWO))
        rule = {"vote" if self._kind == "panel" else "escalate_below": self._rule.value}
        members = {} if self._members is None else {"members": list(self._members.value or [])}
        kept = {key: value for key, value in self._config.items() if key != "weights"}
        weights = {name: forms.number_of(field) for name, field in self._weights.items()} if self._is_weighted else None
        return {**kept, "kind": self._kind, **members, **rule, **({"weights": weights} if weights else {})}

    @property
    def _is_weighted(self) -> bool:
        return self._kind == "panel" and self._rule.value == "weighted"

    def _show_weights(self) -> None:
        """A weight for each member if the vote is weighted; weights already entered are kept."""
        given: dict[str, float | None] = dict(self._config.get("weights") or {})
        given |= {name: one.value for name, one in self._weights.items()}
        self._weighing.clear()
        for name in self._weights:
            self._fields.pop(f"judge.weights.{name}", None)
        self._weights = {}
        if not self._is_weighted:
            return
        named = self._config.get("members") if self._members is None else self._members.value
        with self._weighing, forms.fieldset("Weights"):
            text("How much the score of each member counts; 2 counts twice as much as 1.", classes="help")
            for name in cast("Iterable[str]", named or ()):
                about = forms.About(f"Weight of {self._choices.members.get(name, name)}", required=True)
                self._weights[name] = forms.number_field(about, given.get(name, 1))
                self._fields[f"judge.weights.{name}"] = self._weights[name]


class _EmbeddedForm(_JudgeForm):
    """Text overlap, similarity and facts; its scores pass or fail only if someone says that they are calibrated."""

    def _build(self) -> None:
        help = "Only if you have compared its scores with people's labels: its scores then pass or fail."
        self._calibrated = forms.tick(
            forms.About("Thresholds apply to its scores", help), bool(self._config.get("calibrated"))
        )

    def _read(self) -> dict[str, Any]:
        return {**self._config, "kind": "embedded", "calibrated": bool(self._calibrated.value)}


def judge_content(one: StoredJudge) -> dict[str, Any]:
    """The content of a judge that is shown if somebody else has changed it."""
    return {"title": one.title, **one.config, "description": one.description}


def trial_card(
    workspace: Workspace, choices: JudgeChoices, tried: Callable[[], TriedJudge], fields: Mapping[str, forms.Field]
) -> None:
    """A card in which the judge grades a sample answer by a metric of the library."""
    with ui.element("aside").classes("card stack estimate").props('aria-label="Try it"'):
        text("Try it", "h2")
        about = forms.About("Metric", "By which the answer is graded; nothing is saved.", required=True)
        metric = forms.pick(about, choices.metrics, _TRIED_WITH if _TRIED_WITH in choices.metrics else None)
        case = CaseFields(workspace, choices.datasets, is_asked=False)
        case.fields["question"].value, case.fields["answer"].value = _SAMPLE

        async def grade() -> None:
            place.clear()
            with forms.faults_shown({**fields, **case.fields, "metric": metric}, grading):
                judge, row, name = tried(), case.read(), str(metric.value or "")
                trial = await workspace.ask(lambda: try_judge(workspace, judge, name, row))
                with place:
                    show_trial(trial)
                reveal(place)

        with ui.element("div").classes("actions"):
            grading = button("Grade it", grade, icon="gavel")
        place = ui.element("div").props("aria-live=polite").classes("stack")
