"""Import of Giskard Hub's scenarios: its current export with interactions, and the older one with messages; or CSV.

An interaction is a case: the turns before it, its own messages, and its checks. Giskard's output of an interaction
becomes an example answer, on which checks can be tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from evalflow.addons.interop.importers.columns import Columns, is_missing
from evalflow.addons.interop.importers.conversation import are_messages
from evalflow.addons.interop.importers.exports import answer_of, asks_nothing, input_of
from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.readers import parsed, text_of, texts_in
from evalflow.addons.interop.importers.recorded import RecordedCases, recorded_cases
from evalflow.addons.interop.importers.sources import read_rows
from evalflow.metrics.case_checks import PARAMS, asks_judge
from evalflow.values.jsonvalues import as_list, as_map, as_number, present

_HINT = "export the scenarios of a dataset from Giskard Hub as JSON, JSON lines or CSV"
_DRAFT = "to import it, set its status to active"
_TYPES: Mapping[str, str] = {
    "correctness": "correctness",
    "conformity": "conformity",
    "groundedness": "groundedness",
    "metadata": "metadata",
    "string_matching": "string_matching",
    "string_match": "string_matching",
    "regex_matching": "regex_matching",
    "semantic_similarity": "semantic_similarity",
    "json_valid": "json_schema",
    **{
        name: name
        for name in ("equals", "not_equals", "greater_than", "greater_than_equals", "less_than", "less_than_equals")
    },
}
_KEYS: Mapping[str, str] = {
    "reference_text": "reference",
    "normalization_form": "normalize",
    "expected_schema": "schema",
}
_NO_LIKE: Mapping[str, str] = {
    "answer_relevance": "metric=relevance",
    "contradiction": "metric=absence_of_factual_contradictions",
    "toxicity": "metric=toxicity",
    "readability": "metric=reading_level",
    "llm_judge": "write it as a metric of the kind rubric: docs/metrics.md",
}
_OLDER = {"asked": ("input_data", "messages", "user_message"), "said": ("demo_output", "bot_message")}
_CUSTOM = "the file does not define it: declare it as a custom check, docs/checks.md"


def read_giskard(source: ImportSource) -> ImportedConfig:
    """Import one file of scenarios; UserError if it has none. Drafts, and checks without an equivalent, are listed."""
    imported = ImportedConfig(ledger=Ledger(("cases", "checks")))
    with recorded_cases(source, "Giskard", "giskard", imported=imported) as cases:
        for read_row in read_rows(source.file(hint=_HINT), imported.ledger):
            for row in _interactions(_declared(read_row.data), read_row.where):
                cases.take(row, _InteractionReader(row, cases).case, (), _HINT)
    return imported


def _declared(row: Mapping[str, object]) -> Mapping[str, object]:
    """A scenario of either format with its interactions; other keys are unchanged."""
    if "interactions" in row:
        return {**row, "interactions": parsed(row["interactions"])}
    if not is_missing(row.get("question")) and "reference_answer" in row:  # a test set of RAGET
        asked = [*as_list(parsed(row.get("conversation_history"))), {"role": "user", "content": row["question"]}]
        check = _check("hub_correctness", "reference", row["reference_answer"])
        interaction = {"input": {"messages": asked}, "checks": [check] if check else []}
        used = ("question", "reference_answer", "conversation_history")
        return {**{name: value for name, value in row.items() if name not in used}, "interactions": [interaction]}
    at = {part: next((name for name in names if not is_missing(row.get(name))), "") for part, names in _OLDER.items()}
    asked, answer, noted = row.get(at["asked"]), row.get(at["said"]), parsed(row.get("bot_metadata"))
    messages = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    about = {} if is_missing(noted) else {"metadata": noted}
    rules, tags, named = (_numbered(row, start) for start in ("rule_", "tag_", "check_"))
    rules += as_list(row.get("rules"))
    checks = [
        _check("hub_correctness", "reference", row.get("expected_output")),
        _check("hub_conformity", "rules", rules),
        _check("hub_groundedness", "context", row.get("reference_context")),
        *as_list(row.get("checks")),
        *({"identifier": name} for name in named),
    ]
    output = {} if is_missing(answer) else {"output": {"response": answer, **about}}
    interaction = {
        "input": {"messages": messages} if messages else {},
        **output,
        "checks": [check for check in checks if check],
    }
    used = {*at.values(), "bot_metadata", "expected_output", "reference_context"}
    used |= {name for name in ("rules", "checks") if isinstance(row.get(name), list)}
    starts = ("tag_", "rule_", "check_")
    rest = {name: value for name, value in row.items() if name not in used and not name.startswith(starts)}
    return {**rest, **({"tags": tags} if tags else {}), "interactions": [interaction]}


def _numbered(row: Mapping[str, object], start: str) -> list[object]:
    return [value for name, value in row.items() if name.startswith(start) and not is_missing(value)]


def _check(identifier: str, key: str, value: object) -> dict[str, object] | None:
    return None if is_missing(value) or value == [] else {"identifier": identifier, "params": {key: value}}


def _interactions(scenario: Mapping[str, object], where: str) -> Iterator[Columns]:
    """A row for each interaction, with the messages before it. The first row has all keys of the scenario."""
    declared = as_list(scenario.get("interactions"))
    ordered = sorted(declared, key=lambda entry: as_number(as_map(entry).get("position")) or 0.0)
    about = {name: value for name, value in scenario.items() if name != "interactions"}
    shared = {name: about[name] for name in ("id", "tags", "status") if name in about}
    earlier: list[object] = []
    for number, item in enumerate(ordered or [{}]):
        interaction = as_map(item)
        asked = as_list(as_map(interaction.get("input")).get("messages"))
        own = asked[len(earlier) :] if earlier and asked[: len(earlier)] == earlier else asked
        many = {"earlier": earlier, "number": number} if len(ordered) > 1 else {}
        place = f"{where}:interactions[{number}]" if len(ordered) > 1 else where
        yield Columns({**(shared if number else about), **many, "interaction": interaction}, place)
        earlier = [*earlier, *own]


@dataclass(frozen=True, slots=True)
class _InteractionReader:
    """Reads the row of one interaction."""

    row: Columns
    cases: RecordedCases

    def case(self) -> dict[str, object]:
        row, ledger = self.row, self.cases.imported.ledger
        interaction = row.child("interaction")
        if row.peek("status") == "draft":
            raise Untranslatable("it is a draft", _DRAFT)
        earlier, number = as_list(row.get("earlier")), row.get("number")
        case = self._asked(interaction, earlier)
        own = row.case_id("id")
        if own is not None:
            case |= {"id": f"{own}/{number + 1}" if isinstance(number, int) else str(own)}
            case |= {} if number is None else {"group": str(own)}
        case |= present(tags=row.tags("tags"), demo_output=_example(interaction, ledger, row.where))
        declared = as_list(interaction.peek("checks"))
        checks = [check for item in declared if (check := self._check(item, ledger)) is not None]
        interaction.get("position")
        if len(checks) == len(declared):  # otherwise all are kept unchanged, beside the translated ones
            interaction.get("checks")
        self.cases.asked |= {"checks": None} if checks else {}
        return case | ({"checks": checks} if checks else {})

    def _asked(self, interaction: Columns, earlier: list[object]) -> dict[str, object]:
        asked_input = interaction.get("input")
        inner = as_map(asked_input)
        if earlier and are_messages(inner.get("messages")):
            asked = as_list(inner["messages"])
            own = asked if asked[: len(earlier)] == earlier else [*earlier, *asked]
            asked_input = {**inner, "messages": own}
        elif "input" in inner and len(inner) == 1:  # of a dataset whose input has a schema of its own
            asked_input = inner["input"]
        if not asked_input:
            raise Untranslatable("it has no messages")
        case = input_of(asked_input, self.cases.imported.ledger, self.row.where)
        if asks_nothing(case):
            raise Untranslatable("its input is empty")
        return case

    def _check(self, declared: object, ledger: Ledger) -> dict[str, object] | None:
        """The equivalent check of evalflow; None if there is none, which is listed."""
        check = as_map(declared)
        params: dict[str, object] = {}
        for key in ("spec", "override_spec", "params"):
            params |= {
                _KEYS.get(name, name): value for name, value in as_map(check.get(key)).items() if value is not None
            }
        named = next((check[key] for key in ("identifier", "name", "check_id") if check.get(key)), "check")
        shown_name = named if isinstance(named, str) else ""
        with ledger.taking("checks", f"check {shown_name}".rstrip(), self.row.where):
            name = text_of(named, "name")
            kind = text_of(params.pop("type", name), "type").removeprefix("hub_")
            translated = _translated(kind, params)
            self.cases.judged = self.cases.judged or asks_judge(translated["identifier"], translated["params"])
            is_own = name.removeprefix("hub_") != kind
            enabled = {"enabled": False} if check.get("enabled") is False else {}
            return {**translated, **({"name": name} if is_own else {}), **enabled}
        return None


def _translated(kind: str, params: dict[str, object]) -> dict[str, object]:
    if kind in _NO_LIKE:
        raise Untranslatable("evalflow has no equivalent check", f"nearest: {_NO_LIKE[kind]}")
    identifier = _TYPES.get(kind)
    if identifier is None:
        raise Untranslatable("it is a custom check", _CUSTOM)
    if identifier == "conformity" and isinstance(params.get("rule"), str):
        params = {**{key: value for key, value in params.items() if key != "rule"}, "rules": [params["rule"]]}
    contexts = texts_in(params.get("context"))
    if contexts is not None:
        params = {**params, "context": "\n\n".join(contexts)}
    try:
        PARAMS[identifier].model_validate(params)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(map(str, fault["loc"]))
        raise Untranslatable(f"its parameters are not those of the check {identifier}: {key}: {fault['msg']}") from None
    return {"identifier": identifier, "params": params}


def _example(interaction: Columns, ledger: Ledger, where: str) -> object:
    """The example answer with its metadata. Without one None, and the output stays unread."""
    output = interaction.peek("output")
    parts = as_map(output)
    answer = parts.get("response", parts.get("output", output))
    if is_missing(answer):
        return None
    interaction.get("output")
    if not isinstance(as_map(answer).get("content"), str):
        about: dict[str, object] = {}
        text = answer_of(answer, about, ledger, where)["answer"]
    else:
        about = {name: part for name, part in as_map(answer).items() if name != "role" and not is_missing(part)}
        text = about.pop("content")
        about |= as_map(about.pop("metadata", None))
    about |= as_map(parts.get("metadata")) if answer is not output else {}
    return {"role": "assistant", "content": text, "metadata": about} if about else text
