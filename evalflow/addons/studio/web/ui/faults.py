"""Errors on a page: a summary near the pressed button, with links to the repair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from nicegui import ui

from evalflow.addons.studio.web.ui.parts import button, capitalised, plain_button, problems_of, sentence, text
from evalflow.addons.studio.web.ui.visitor import root_path, title_of
from evalflow.addons.studio.work.space import StaleError
from evalflow.errors import EvalflowError, Problem, Subject
from evalflow.report.wording import counted

_FOCUS = """setTimeout(() => {{
  const it = getHtmlElement({id});
  for (let fold = it?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  it?.scrollIntoView({{block: "center"}});
  if ({is_focused}) it?.focus({{preventScroll: true}});
}}, 50)"""


@dataclass(frozen=True, slots=True)
class Marked:
    """A field that shows its own error: its label, and a function that focuses it."""

    label: str
    go: Callable[[], object]


class FaultSummary(ui.element):
    """The summary of errors, which screen readers read out."""

    def __init__(self, problems: Sequence[Problem], marked: Sequence[Marked] = (), *, reload: bool = False) -> None:
        super().__init__("div")
        self.classes("message fail fault-summary").props("role=alert tabindex=-1")
        with self:
            ui.icon("error_outline").props("aria-hidden=true")
            with ui.element("div"):
                if (count := len(problems) + len(marked)) > 1:
                    text(counted(count, "problem"), "strong")
                for problem in problems:
                    _problem(problem)
                for one in marked:
                    plain_button(f"See “{one.label}”", one.go, "link")
                if reload:
                    button("Load the page again", ui.navigate.reload, icon="refresh")


def _problem(problem: Problem) -> None:
    is_file = problem.where and problem.where not in problem.what
    with ui.element("div").classes("fault"):
        what = capitalised(problem.what)
        text(f"{problem.where}: {what}" if is_file else what, classes="text")
        if problem.hint:
            text(sentence(problem.hint), classes="hint text")
        if problem.see:
            with ui.element("ul").classes("see"):
                for subject in problem.see:
                    with ui.element("li"):
                        subject_link(subject)


def subject_link(subject: Subject) -> None:
    """A link to an object in a new tab, so that typed text is kept here."""
    root = f"/p/{subject.project}" if subject.project else root_path()
    # Not a link of NiceGUI, which would add the prefix of the present project.
    with ui.element("a").props(f'href="{root}{path_of(subject)}" target=_blank'):
        of = f" of {title_of('bot', subject.owner)}" if subject.owner and subject.kind == "metric" else ""
        called = title_of(subject.kind, subject.name, subject.owner)
        name = "import cases" if subject.kind == "import" else f"{subject.kind} {called}{of}".strip()
        text(name, "span")
        text(" (opens a new tab)", "span", "unseen")


def path_of(subject: Subject) -> str:
    """The address of an object within its project."""
    name, owner = quote(subject.name, safe=""), quote(subject.owner, safe="")
    match subject.kind:
        case "metric":
            return f"/bots/{owner}/metrics/{name}"
        case "cases":
            return f"/datasets/{owner}"
        case "import":
            return f"/datasets/{owner}/import"
        case "bots":
            return "/"
        case "datasets" | "runs":
            return f"/{subject.kind}"
        case kind:
            return f"/{kind}s/{name}"


def tell_fault(fault: EvalflowError | str, *, focus: bool = True) -> None:
    """Show an error that belongs to no field."""
    problems = [Problem(fault)] if isinstance(fault, str) else problems_of(fault)
    problems = [replace(one, where="") for one in problems]  # keys of requests are shown on no page
    show_faults(problems, reload=isinstance(fault, StaleError), focus=focus)


def show_faults(
    problems: Sequence[Problem], marked: Sequence[Marked] = (), *, reload: bool = False, focus: bool = True
) -> None:
    """Show and focus problems until the next attempt.

    They are placed before the pressed row of buttons, or at the top of a dialog or page without one.
    """
    clear_faults()
    place, index = _place()
    with place:
        made = FaultSummary(problems, marked, reload=reload)
    made.move(target_index=index)
    reveal(made, focus=focus)


def clear_faults() -> None:
    """Remove the summary of an earlier attempt."""
    place, _ = _place()
    for one in _summaries(place):
        one.delete()


def has_faults(element: ui.element) -> bool:
    """Whether a summary is shown within an element."""
    return any(isinstance(one, FaultSummary) for one in element.descendants())


def unfold(element: ui.element) -> None:
    """Open the folds around an element."""
    for above in element.ancestors():
        if isinstance(above, ui.expansion):
            above.open()


def reveal(element: ui.element, *, focus: bool = False) -> None:
    """Open the folds around an element, scroll to it, and optionally focus it."""
    unfold(element)
    # Quasar's own focus does not scroll.
    # By its own client: the caller may stand in a part of the page that is gone, such as the field of an upload.
    element.client.run_javascript(_FOCUS.format(id=element.id, is_focused="true" if focus else "false"))


def _summaries(place: ui.element) -> list[FaultSummary]:
    return [one for one in place.default_slot.children if isinstance(one, FaultSummary)]


def _place() -> tuple[ui.element, int]:
    """Where to put a summary: an element, and the position in it.

    Not into a row of buttons, a table, or a live region, which is rebuilt when it changes.
    """
    here = ui.context.slot.parent
    above = [here, *here.ancestors()]
    if any(one.is_deleted for one in above):
        above = []
    before: ui.element | None = None
    for one in above:
        if isinstance(one, ui.dialog):
            inside = one.default_slot.children[0]
            return _beside(before) if before else (inside, 0)
        if "heading" in one.classes:
            break
        if one.tag == "table" or "actions" in one.classes or "aria-live" in one.props:
            before = one
    return _beside(before) if before else (_content(), 0)


def _beside(element: ui.element) -> tuple[ui.element, int]:
    slot = element.parent_slot
    assert slot is not None
    siblings = [one for one in slot.children if not isinstance(one, FaultSummary)]
    return slot.parent, siblings.index(element)


def _content() -> ui.element:
    client = ui.context.client
    page = next((one for one in client.elements.values() if "page" in one.classes), None)
    return client.content if page is None else page.default_slot.children[-1]
