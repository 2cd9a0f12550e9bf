"""What a guide to the annotation of test conversations promises to a domain expert, one promise a test.

The examples of each type of check are tried one by one in the work's test_checks.py, and the pages by hand in web/pages
(test_datasets, test_checks); here the promises are kept by the API and a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.work.space import Workspace, open_workspace
from evalflow.testing import Endpoint, Request
from tests.addons.studio.web.conftest import Answer, Api, api_served
from tests.datasets.workbooks import workbook
from tests.finishing import carry_out

pytestmark = pytest.mark.slow
USER, ASSISTANT = "user", "assistant"
FAULT = "FAULT"
"""What the judge here objects to in an answer."""


def reply(request: Request) -> Any:
    """The bot, and a judge that sees the answer alone."""
    if request.schema is None:
        return f"Python, as in your turn {sum(one['role'] == USER for one in request.body['messages'])}."
    is_faulty = FAULT in request.text
    return {"reason": "There is a fault." if is_faulty else "There is none.", "passed": not is_faulty}


@dataclass(frozen=True)
class Guide:
    """A person who follows the guide, with a bot named `desk`."""

    api: Api
    space: Workspace
    endpoint: Endpoint
    names: Iterator[str] = field(default_factory=lambda: (f"cases_{n}" for n in range(1000)))

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = self.try_to(method, path, body, **headers)
        assert answer.status < 300, answer.body
        return answer.json if answer.body else None

    def try_to(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return self.api(method, path, body, **headers)

    def dataset(self, *cases: Mapping[str, Any]) -> str:
        name = next(self.names)
        self.ask("POST", "/datasets", {"name": name})
        if cases:
            self.ask("POST", f"/datasets/{name}/cases", {"items": list(cases)})
        return name

    def cases(self, dataset: str, query: str = "") -> list[dict[str, Any]]:
        return self.ask("GET", f"/datasets/{dataset}/cases?{query}")["items"]

    def run(self, dataset: str, bot: str = "desk", **request: Any) -> str:
        body = {"bot": bot, "datasets": [dataset], "metrics": ["checks"], "options": {"generate": bot == "desk"}}
        if bot != "desk":
            body |= {"judge": "strict"}
        run = self.ask("POST", "/runs", {**body, **request})["run_id"]
        done = carry_out(self.space, run)
        assert done.state == "done", done.message
        return run

    def scores(self, run: str) -> dict[tuple[str, str], dict[str, Any]]:
        items = self.ask("GET", f"/runs/{run}/scores?limit=200")["items"]
        return {(one["case_id"], one["metric"]): one for one in items}


@pytest.fixture(name="guide", scope="module")
def _guide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guide]:
    folder = tmp_path_factory.mktemp("guide")
    with Endpoint(reply) as endpoint, api_served(folder) as server, closing(open_workspace()) as space:
        guide = Guide(Api(server), space, endpoint)
        model = {"kind": "openai", "model": "m", "base_url": endpoint.url, "api_key_env": None}
        guide.ask("POST", "/bots", {"name": "desk", "config": model})
        guide.ask("POST", "/judges", {"name": "strict", "config": model})
        yield guide


def said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def check(identifier: str, **params: Any) -> dict[str, Any]:
    return {"identifier": identifier, "enabled": True, "params": params}


PYTHON = check("string_matching", keyword="Python")


class TestConversations:
    def test_a_single_message_is_sent_and_the_answer_is_held_against_the_criteria(self, guide: Guide) -> None:
        name = guide.dataset({"id": "a", "question": "Which language is it written in?", "checks": [PYTHON]})
        before = guide.endpoint.count
        run = guide.run(name)
        (sent,) = [one for one in guide.endpoint.requests[before:] if one.schema is None]
        assert sent.body["messages"] == [said(USER, "Which language is it written in?")]
        (score,) = guide.scores(run).values()
        assert (score["metric"], score["score"], score["answer"]) == (
            "string_matching",
            1.0,
            "Python, as in your turn 1.",
        )

    def test_earlier_turns_are_passed_as_history_and_only_the_next_answer_is_generated(self, guide: Guide) -> None:
        turns = [
            said(USER, "Tell me about the library."),
            said(ASSISTANT, "With pleasure."),
            said(USER, "Its language?"),
        ]
        name = guide.dataset({"id": "a", "messages": turns, "checks": [PYTHON]})
        before = guide.endpoint.count
        run = guide.run(name)
        (sent,) = [one for one in guide.endpoint.requests[before:] if one.schema is None]
        assert sent.body["messages"] == turns
        assert guide.scores(run)["a", "string_matching"]["answer"] == "Python, as in your turn 2."

    def test_there_may_be_as_many_turns_as_one_wants(self, guide: Guide) -> None:
        turns = [said((USER, ASSISTANT)[n % 2], f"Turn {n}") for n in range(101)]
        (case,) = guide.cases(guide.dataset({"messages": turns}))
        assert case["body"]["messages"] == turns

    def test_a_conversation_ends_with_the_user_unless_it_is_meant_otherwise(self, guide: Guide) -> None:
        turns = [said(USER, "Hello?"), said(ASSISTANT, "Hello!")]
        name = guide.dataset({"question": "Hello?"})
        refused = guide.try_to("POST", f"/datasets/{name}/cases", {"items": [{"messages": turns}]})
        assert refused.status == 422
        assert "the last must be a user's" in refused.body.decode()
        guide.ask("POST", f"/datasets/{name}/cases", {"items": [{"messages": turns}], "allow_irregular": True})
        first, irregular = guide.cases(name)
        for case, status in ((first, 422), (irregular, 200)):
            path, body = f"/datasets/{name}/cases/{case['id']}", {**case["body"], "messages": turns}
            assert guide.try_to("PUT", path, body, If_Match='"1"').status == status

    def test_two_assistant_messages_in_a_row_are_refused(self, guide: Guide) -> None:
        turns = [said(USER, "Hello?"), said(ASSISTANT, "Hello!"), said(ASSISTANT, "Hello!!"), said(USER, "?")]
        name = guide.dataset({"question": "Hello?"})
        refused = guide.try_to("POST", f"/datasets/{name}/cases", {"items": [{"messages": turns}]})
        assert "second assistant message in a row" in refused.body.decode()


class TestAnswerExamples:
    def test_an_example_is_not_used_by_a_run(self, guide: Guide) -> None:
        example = "It is written in Fortran."
        name = guide.dataset({"id": "a", "question": "Language?", "demo_answer": example, "checks": [PYTHON]})
        before = guide.endpoint.count
        score = guide.scores(guide.run(name))["a", "string_matching"]
        assert (score["score"], "Fortran" in score["answer"]) == (1.0, False)
        assert not any("Fortran" in one.text for one in guide.endpoint.requests[before:])

    def test_criteria_are_tried_on_the_example_while_annotating(self, guide: Guide) -> None:
        case = {"question": "Language?", "demo_answer": "It is written in Fortran.", "checks": [PYTHON]}
        (tried,) = guide.ask("POST", "/checks/try", case)
        assert tried["state"] == "failed"
        assert "Python" in tried["reason"]

    @pytest.mark.parametrize("ending", ["jsonl", "json", "csv", "xlsx"])
    def test_examples_are_imported_with_the_conversations(self, guide: Guide, tmp_path: Path, ending: str) -> None:
        name = guide.dataset()
        text = {
            "jsonl": '{"question": "Language?", "demo_output": "Python, once."}',
            "json": '[{"question": "Language?", "demo_output": {"role": "assistant", "content": "Python, once."}}]',
            "csv": 'question,demo_output\nLanguage?,"Python, once."\n',
        }
        rows = [["question", "demo_output"], ["Language?", "Python, once."]]
        file = (
            workbook(tmp_path / "cases.xlsx", {"Cases": rows}).read_bytes()
            if ending == "xlsx"
            else text[ending].encode()
        )
        guide.ask("POST", f"/datasets/{name}/cases/upload?format={ending}", file, Content_Type="text/plain")
        (case,) = guide.cases(name)
        assert case["body"]["demo_answer"]["content"] == "Python, once."

    def test_an_example_is_asked_of_the_bot(self, guide: Guide) -> None:
        name = guide.dataset({"messages": [said(USER, "a"), said(ASSISTANT, "b"), said(USER, "c")]})
        (case,) = guide.cases(name)
        path = f"/datasets/{name}/cases/{case['id']}"
        example = guide.ask("POST", f"{path}/example", {"bot": "desk"})
        assert example == said(ASSISTANT, "Python, as in your turn 2.")
        kept = guide.ask("PUT", path, {**case["body"], "demo_answer": example}, If_Match=f'"{case["version"]}"')
        assert kept["body"]["demo_answer"] == example

    def test_a_bad_example_is_written_by_hand_and_flagged(self, guide: Guide) -> None:
        rule = "The agent should not give financial advice."
        name = guide.dataset(
            {"question": "Buy?", "demo_answer": f"{FAULT}: buy.", "checks": [check("conformity", rules=[rule])]}
        )
        scores = guide.scores(guide.run(name, "recorded", options={"generate": "demo"}))
        assert [(one["score"], one["reason"]) for one in scores.values()] == [(0.0, "There is a fault.")]

    def test_missing_examples_are_filled_with_the_answers_of_a_run(self, guide: Guide) -> None:
        name = guide.dataset(
            {"id": "a", "question": "Language?", "checks": [PYTHON]}, {"question": "?", "demo_answer": "Mine."}
        )
        assert guide.ask("GET", f"/datasets/{name}/examples") == {"count": 1, "latest": None}
        run = guide.run(name, fill_examples=False)
        missing = guide.ask("GET", f"/datasets/{name}/examples")
        assert (missing["count"], missing["latest"]["run_id"]) == (1, run)
        assert guide.ask("POST", f"/datasets/{name}/examples", {"run": run}) == {"count": 1}
        examples = [case["body"]["demo_answer"]["content"] for case in guide.cases(name)]
        assert examples == ["Python, as in your turn 1.", "Mine."]
        (first, _) = guide.cases(name)
        (answer,) = guide.ask("GET", f"/datasets/{name}/cases/{first['id']}/answers")["items"]
        assert (answer["run_id"], answer["answer"]) == (run, examples[0])


KINDS: Mapping[str, dict[str, Any]] = {
    "correctness": check("correctness", reference="Paris is the capital of France, founded around 200 BC."),
    "conformity": check("conformity", rules=["Answer in English only.", "Keep a professional tone."]),
    "groundedness": check("groundedness", context="Hillary reached the summit on May 29, 1953."),
    "string_matching": check("string_matching", keyword="Hello"),
    "metadata": check(
        "metadata",
        json_path_rules=[{"json_path": "$.user.name", "expected_value": "John", "expected_value_type": "string"}],
    ),
    "semantic_similarity": check("semantic_similarity", reference="Hello, how may I help you today?", threshold=0.8),
}


def answered(content: str, **metadata: Any) -> dict[str, Any]:
    return {"answer": content, "metadata": metadata}


class TestChecks:
    @pytest.fixture(name="results", scope="class")
    @staticmethod
    def _results(guide: Guide) -> dict[tuple[str, str], dict[str, Any]]:
        """Of one run: a case with all checks that answers well, one that answers badly."""
        checks = [*KINDS.values(), {**PYTHON, "enabled": False}]
        good = {
            "id": "good",
            "question": "?",
            **answered("Hello, how can I help you today?", user={"name": "John Doe"}),
        }
        bad = {"id": "bad", "question": "?", **answered(f"{FAULT}. No.", user={"name": "Doe"})}
        name = guide.dataset({**good, "checks": checks}, {**bad, "checks": checks})
        return guide.scores(guide.run(name, "recorded"))

    @pytest.mark.parametrize("kind", KINDS)
    def test_each_type_passes_and_fails_in_a_run_and_says_why(self, results: Any, kind: str) -> None:
        assert (results["good", kind]["score"], results["bad", kind]["score"]) == (1.0, 0.0)
        assert results["bad", kind]["reason"]

    def test_a_check_that_is_switched_off_is_skipped(self, results: Any) -> None:
        assert {results[case, "string_matching#2"]["status"] for case in ("good", "bad")} == {"skipped"}

    def test_a_judge_is_told_what_correctness_and_groundedness_tolerate(self, guide: Guide, results: Any) -> None:
        starts = {
            "correctness": "gives all the information of a reference",
            "groundedness": "is supported by what it was given",
        }
        texts = [one.text for one in guide.endpoint.requests]
        asked = {kind: next(text for text in texts if start in text) for kind, start in starts.items()}
        assert "Ignore what the answer adds" in asked["correctness"]
        assert "omits a fact" in asked["correctness"]
        assert "Ignore what the answer omits" in asked["groundedness"]
        assert "adds a fact" in asked["groundedness"]

    def test_several_rules_of_one_check_are_judged_together(self, guide: Guide, results: Any) -> None:
        about = [one for one in guide.endpoint.requests if "Keep a professional tone." in one.text]
        assert about
        assert all("Answer in English only." in one.text for one in about)

    def test_a_rule_is_filled_from_its_case(self, guide: Guide) -> None:
        rule = "The agent should not talk about {{rival}}."
        case = {
            "question": "?",
            "answer": "Hi.",
            "vars": {"rival": "Bookworm"},
            "checks": [check("conformity", rules=[rule])],
        }
        before = guide.endpoint.count
        guide.run(guide.dataset(case), "recorded")
        assert any("not talk about Bookworm" in one.text for one in guide.endpoint.requests[before:])

    @pytest.mark.parametrize(
        ("value", "kind", "metadata", "score", "reason"),
        [
            (True, "boolean", {"output": {"success": True}}, 1.0, ""),
            (True, "boolean", {"output": {"success": False}}, 0.0, "Expected true at $.output.success but got false"),
            (True, "boolean", {"output": {}}, 0.0, "JSON path $.output.success does not exist"),
            (3, "number", {"output": {"success": 3}}, 1.0, ""),
        ],
    )
    def test_metadata_are_compared_by_path_and_type(
        self, guide: Guide, value: Any, kind: str, metadata: Any, score: float, reason: str
    ) -> None:
        rule = {"json_path": "$.output.success", "expected_value": value, "expected_value_type": kind}
        example = {**said(ASSISTANT, "Done."), "metadata": metadata}
        case = {"question": "?", "demo_answer": example, "checks": [check("metadata", json_path_rules=[rule])]}
        (tried,) = guide.ask("POST", "/checks/try", case)
        assert tried["state"] == ("passed" if score else "failed")
        assert reason in tried["reason"]

    def test_the_types_to_choose_from_are_listed_with_what_they_are_for(self, guide: Guide) -> None:
        types = {one["identifier"]: one for one in guide.ask("GET", "/checks/types")["items"]}
        assert set(KINDS) <= set(types)
        page = (Path(__file__).parents[4] / "docs" / "checks.md").read_text(encoding="utf-8")
        table = page.partition("## Which check")[2]
        assert all(f"| `{kind}` |" in table for kind in KINDS)


class TestReusableChecks:
    @pytest.mark.parametrize("kind", KINDS)
    def test_one_is_made_of_each_type_with_name_identifier_and_description(self, guide: Guide, kind: str) -> None:
        new = {"name": f"my_{kind}", "title": "My check", "description": "For all.", "type": kind}
        made = guide.ask("POST", "/checks", {**new, "params": KINDS[kind]["params"]})
        assert {key: made[key] for key in new} == new

    @pytest.mark.parametrize("name", ["has spaces", "", "conformity"])
    def test_an_identifier_is_unique_and_has_no_spaces(self, guide: Guide, name: str) -> None:
        body = {"name": name, "type": "conformity", "params": {"rules": ["Be kind."]}}
        assert guide.try_to("POST", "/checks", body).status in (409, 422)

    def test_a_parameter_of_the_type_is_required(self, guide: Guide) -> None:
        refused = guide.try_to("POST", "/checks", {"name": "lacking", "type": "correctness", "params": {}})
        assert refused.status == 422
        assert "reference" in refused.body.decode()

    def test_it_is_enabled_on_many_conversations_at_once_and_runs_beside_the_built_in_ones(self, guide: Guide) -> None:
        english = {"name": "in_english", "type": "conformity", "params": {"rules": ["Answer in English."]}}
        guide.ask("POST", "/checks", english)
        rows = [
            {"id": f"c{n}", "question": "?", "answer": "Python.", "checks": [PYTHON], "tags": ["A"] * (n < 2)}
            for n in range(3)
        ]
        name = guide.dataset(*rows)
        assert guide.ask("POST", "/checks/in_english/cases", {"dataset": name, "tag": "A"}) == {"count": 2}
        scores = guide.scores(guide.run(name, "recorded"))
        assert {key for key in scores if key[1] == "in_english"} == {("c0", "in_english"), ("c1", "in_english")}
        assert len(scores) == 5  # the results of all conversations with the check stand under its name

    def test_it_is_changed_in_one_place(self, guide: Guide) -> None:
        body = {"type": "string_matching", "params": {"keyword": "Java"}}
        guide.ask("POST", "/checks", {"name": "shared", **body})
        name = guide.dataset({"id": "a", "question": "?", "answer": "Python.", "checks": [{"identifier": "shared"}]})
        first = guide.scores(guide.run(name, "recorded"))["a", "shared"]["score"]
        guide.ask("PUT", "/checks/shared", {**body, "params": {"keyword": "Python"}}, If_Match='"1"')
        assert (first, guide.scores(guide.run(name, "recorded"))["a", "shared"]["score"]) == (0.0, 1.0)


class TestTags:
    @pytest.fixture(name="tagged", scope="class")
    @staticmethod
    def _tagged(guide: Guide) -> str:
        """Conversations with several tags, a hierarchy, and none."""
        many = ["Confused User", "Loan Application", "User Issues > Hallucination"]
        rows = [
            {"id": "many", "question": "Loan?", "answer": "Python.", "tags": many, "checks": [PYTHON]},
            {
                "id": "one",
                "question": "?",
                "answer": "No.",
                "tags": ["User Issues>Misunderstanding"],
                "checks": [PYTHON],
            },
            {"id": "none", "question": "?", "answer": "Python.", "checks": [PYTHON]},
        ]
        return guide.dataset(*rows)

    def test_tags_are_optional_and_there_may_be_several(self, guide: Guide, tagged: str) -> None:
        found = {case["body"]["id"]: case["body"].get("tags", []) for case in guide.cases(tagged)}
        assert [len(found[name]) for name in ("many", "one", "none")] == [3, 1, 0]

    @pytest.mark.parametrize(
        ("tag", "ids"),
        [
            ("Loan%20Application", ["many"]),
            ("User%20Issues", ["many", "one"]),
            ("User%20Issues%20%3E%20Hallucination", ["many"]),
        ],
    )
    def test_conversations_are_filtered_by_a_tag_or_its_parent(
        self, guide: Guide, tagged: str, tag: str, ids: list[str]
    ) -> None:
        assert [case["body"]["id"] for case in guide.cases(tagged, f"tag={tag}")] == ids

    def test_a_run_shows_how_the_bot_does_on_each_tag_and_may_take_one_alone(self, guide: Guide, tagged: str) -> None:
        run = guide.run(tagged, "recorded")
        items = guide.ask("GET", f"/tags?run={run}")["items"]
        assert {"tag": "User Issues", "count": 2} in items
        scores = guide.ask("GET", f"/runs/{run}/scores?tag=User%20Issues")["items"]
        assert {one["case_id"]: one["score"] for one in scores} == {"many": 1.0, "one": 0.0}
        alone = guide.run(tagged, "recorded", dataset_values={tagged: {"tags": ["Loan Application"]}})
        assert [case for case, _ in guide.scores(alone)] == ["many"]

    def test_one_convention_is_kept_by_renaming(self, guide: Guide) -> None:
        name = guide.dataset({"question": "1", "tags": ["Loans > New"]}, {"question": "2", "tags": ["Loan"]})
        clash = guide.try_to("POST", "/tags/rename", {"old": "Loans", "new": "Loan"})
        assert clash.status == 409
        guide.ask("POST", "/tags/rename", {"old": "Loans", "new": "Loan", "merge": True})
        tags = [tag for case in guide.cases(name) for tag in case["body"]["tags"]]
        assert sorted(tags) == ["Loan", "Loan > New"]

    def test_many_conversations_are_tagged_at_once(self, guide: Guide) -> None:
        name = guide.dataset({"question": "1"}, {"question": "2", "tags": ["old"]})
        ids = [case["id"] for case in guide.cases(name)]
        guide.ask(
            "POST", f"/datasets/{name}/cases/tag", {"cases": ids, "add": ["red teaming phase 1"], "remove": ["old"]}
        )
        assert [case["body"]["tags"] for case in guide.cases(name)] == [["red teaming phase 1"]] * 2
