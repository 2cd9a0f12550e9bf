"""Guess where in objects, such as the rows of other programs' logs and exports, the case fields are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evalflow.datasets.conversations import answer_key
from evalflow.datasets.fields import ColumnSource
from evalflow.datasets.proposal import USUAL, propose_fields
from evalflow.values.cells import opened
from evalflow.values.jsonvalues import as_list, as_map, is_object, json_path
from evalflow.values.leaves import Leaf, leaves, utterances, written_path

_TEXTS = ("question", "answer", "reference")
_FOUND_INSIDE = ("question", "messages", "answer", "reference", "contexts")
_HOLDERS: Mapping[str, str] = {"request": "question", "outputs": "answer", "result": "answer", "body": "answer"}
"""Names of objects, beside the usual names of columns, with the field that such an object is about."""
_ABOUT = {"metadata", "labels", "vars", "tags", "usage", "expected", "actual", "scores", "error"}
"""Objects that say something about a case, in which a `source` or a `text` is not the case's own."""


def propose_mapping(first_values: Mapping[str, object], rows: Sequence[Mapping[str, object]] = ()) -> dict[str, str]:
    """Propose a `fields` mapping for unknown data, by the columns and their first values: case field to column or path.

    A field whose column holds an object is the text in it, such as `$.inputs.question`; what is not found is left out.
    If conversations end with the assistant's message, in all of the first `rows`, it is the answer, if nothing else is.

        propose_mapping({"inputs": {"q": "Why?"}, "outputs": {"answer": "So."}})
        # {"question": "$.inputs.q", "answer": "$.outputs.answer"}
    """
    proposed = propose_fields(list(first_values))
    opened_values = {column: opened(value) for column, value in first_values.items()}
    objects = {
        column: as_map(value) for column, value in opened_values.items() if is_object(value) and column not in _ABOUT
    }
    by_name = {name: name for name in USUAL if name in first_values} | proposed
    if is_object(next(iter(as_list(opened_values.get(by_name.get("question", "")))), None)):  # `input` of a chat API
        proposed["messages"] = by_name["messages"] = by_name.pop("question")
        proposed.pop("question", None)
    for field in _TEXTS:
        if by_name.get(field) in objects:
            proposed.pop(field, None)
            del by_name[field]
    for column, value in objects.items():
        for field, path in _inside(column, value).items():
            is_asked = field in ("question", "messages") and not {"question", "messages"}.isdisjoint(by_name)
            if field not in by_name and not is_asked:
                proposed[field] = by_name[field] = path
    return _with_last_message(proposed, by_name, rows or [first_values])


def with_paths(columns: Mapping[str, object], mapping: Mapping[str, str]) -> dict[str, object]:
    """The columns with their first values, but instead of a column that paths of the mapping lead into, the paths."""
    entered: dict[str, dict[str, object]] = {}
    opened_values = {column: opened(value) for column, value in columns.items()}
    for path in (at for at in mapping.values() if at.startswith("$") and at not in columns):
        begins = {column: (f"{written_path((column,))}.", f"{written_path((column,))}[") for column in columns}
        whole = next((column for column in columns if path.startswith(begins[column])), "")
        entered.setdefault(whole, {})[path] = json_path(path).value(opened_values)
    shown = ((column, entered.get(column, {column: value})) for column, value in columns.items())
    return {name: value for _, values in shown for name, value in values.items()} | entered.get("", {})


def _inside(column: str, value: Mapping[str, object]) -> dict[str, str]:
    inner_leaves = list(leaves(value, column))
    names: dict[str, Leaf] = {}
    for leaf in inner_leaves:
        names.setdefault(leaf.name, leaf)
    inside = propose_fields(list(names))
    places = {name: names[name] for name in _FOUND_INSIDE if name in names}
    places |= {field: names[name] for field, name in inside.items() if field in _FOUND_INSIDE}
    texts = utterances(inner_leaves)
    about = next(iter(propose_fields([column])), None) or (column if column in USUAL else _HOLDERS.get(column.lower()))
    places = {field: leaf for field, leaf in places.items() if isinstance(leaf.value, str) == (field in _TEXTS)}
    is_clear = bool(texts) and (len(texts) == 1 or texts[0].is_wrapped)
    if is_clear and about in _TEXTS and about not in places and not (about == "question" and "messages" in places):
        places[about] = texts[0]
    return {field: leaf.path for field, leaf in places.items()}


def _with_last_message(
    proposed: dict[str, str], by_name: Mapping[str, str], rows: Sequence[Mapping[str, object]]
) -> dict[str, str]:
    """The mapping, with the last message as the answer if it always is the assistant's and no column has the answer."""
    column = by_name.get("messages")
    if column is None or "answer" in by_name:
        return proposed
    path = column if column.startswith("$") else written_path((column,))
    source = ColumnSource(json_path(path))
    keys = {answer_key(turns) for row in rows if (turns := source.value(row)) is not None}
    if len(keys) != 1 or (key := next(iter(keys))) is None:
        return proposed
    return {**proposed, "messages": f"{path}[:-1]", "answer": f"{path}[-1].{key}"}
