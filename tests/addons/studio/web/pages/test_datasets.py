"""Test cases, collected and kept in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.addons.studio.web.conftest import Fits, Server
from tests.datasets.workbooks import compound, workbook

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]
EVIL = "</script><img src=x onerror=\"document.title='owned'\">"


def seen(page: Any, text: str) -> Any:
    """Wait until a text is seen."""
    found = page.get_by_text(text, exact=False).filter(visible=True).first
    found.wait_for()
    return found


def field(page: Any, label: str) -> Any:
    """A field by its label."""
    return page.get_by_label(re.compile(rf"^{label}( \(optional\))?$")).first


def saved(page: Any) -> None:
    page.get_by_role("status").get_by_text("Saved", exact=True).wait_for()


def press(page: Any, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def define(pages: Server, name: str, *cases: dict[str, Any]) -> None:
    assert pages.ask("POST", "/api/v1/datasets", {"name": name}).status == 201
    if cases:
        assert pages.ask("POST", f"/api/v1/datasets/{name}/cases", {"items": cases}).status == 201


def kept(pages: Server, name: str) -> list[dict[str, Any]]:
    """The cases as they are exported."""
    answer = pages.ask("GET", f"/api/v1/datasets/{name}/export")
    return [json.loads(line) for line in answer.body.splitlines()]


def test_questions_are_pasted_edited_found_and_exported(visit: Visit, pages: Server) -> None:
    page = visit("/datasets")
    seen(page, "Collect your first test cases")
    page.get_by_role("link", name="New dataset").click()
    field(page, "Name").fill("fees")
    field(page, "Description").fill("What people ask about fees.")
    press(page, "Create")
    seen(page, "No test cases yet")
    page.get_by_role("link", name="Paste or upload").click()
    field(page, "Questions, or a table").fill(
        "What does it cost?\n\nCan I pay by card?\nHow do I get a refund?\nCan I pay by card?"
    )
    press(page, "Continue")
    seen(page, "4 cases ready")
    seen(page, "1 row without an id asks the same as an earlier one")
    press(page, "Import 4 cases")
    page.get_by_role("link", name="Can I pay by card?").first.click()
    field(page, "Expected answer").fill("Yes, any card.")
    for tag in ("Fees>Payment", "easy"):
        page.get_by_role("combobox", name="Tags").fill(tag)
        page.keyboard.press("Enter")
    press(page, "Add one")
    page.get_by_role("textbox", name="Value").first.fill("basic")
    press(page, "Save")
    seen(page, "is required")
    page.get_by_label("Name").first.fill("plan")
    press(page, "Add a piece")
    field(page, "Text").fill("We take every card.")
    page.keyboard.press("Control+s")
    saved(page)
    page.get_by_role("link", name="← fees").click()
    page.wait_for_url("**/datasets/fees?row=*")
    seen(page, "Fees > Payment")
    field(page, "Search").fill("REFUND")
    seen(page, "1–1 of 1")
    field(page, "Search").fill("nothing like it")
    press(page, "Show all cases")
    seen(page, "1–4 of 4")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    assert download.value.suggested_filename == "fees.jsonl"
    rows = [json.loads(line) for line in Path(download.value.path()).read_text(encoding="utf-8").splitlines()]
    assert rows == kept(pages, "fees")
    changed = {key: value for key, value in rows[1].items() if key != "id"}
    assert changed == {
        "messages": [{"role": "user", "content": "Can I pay by card?"}],
        "reference": "Yes, any card.",
        "contexts": [{"text": "We take every card."}],
        "tags": ["Fees > Payment", "easy"],
        "vars": {"plan": "basic"},
    }


def test_a_case_has_several_right_answers(visit: Visit, pages: Server) -> None:
    define(pages, "answers", {"id": "a", "question": "Which river?", "reference": ["Aare", "the Aare"]})
    page = visit("/datasets/answers")
    seen(page, "2. the Aare")
    page.get_by_role("link", name="Which river?").click()
    assert field(page, "Expected answer").input_value() == "Aare"
    assert field(page, "Also right").input_value() == "the Aare"
    press(page, "Another right answer")
    page.get_by_label(re.compile("^Also right")).nth(1).fill("the river Aare")
    press(page, "Save")
    saved(page)
    assert kept(pages, "answers")[0]["reference"] == ["Aare", "the Aare", "the river Aare"]
    remove = page.get_by_role("button", name="Remove", exact=True)
    for left in (1, 0):
        remove.first.click()
        remove.nth(left).wait_for(state="detached")
    seen(page, "Not saved yet")
    press(page, "Save")
    saved(page)
    assert kept(pages, "answers")[0]["reference"] == "Aare"


def test_a_file_is_mapped_and_its_bad_row_given_back(visit: Visit, pages: Server, tmp_path: Path) -> None:
    define(pages, "uploaded", {"id": "a", "question": "Here already?"})
    file = tmp_path / "from_excel.csv"
    file.write_text("nr;prompt;ideal;plan\na;One?;1;basic\nb;Two?;2;basic\nc;Three?;3;pro;4\nd;Four?;4;\n", "utf-8")
    page = visit("/datasets/uploaded/add")
    page.locator("input[type=file]").set_input_files(file)
    seen(page, "2 cases ready, 2 rows with errors")
    seen(page, "the id 'a' is in the dataset already")
    seen(page, "line 4")
    seen(page, "the record has 5 cells, more than the header's 4")
    assert page.get_by_label("What nr is").input_value() == "Id"
    assert page.get_by_label("What ideal is").input_value() == "Expected answer"
    page.get_by_label("What nr is").click()
    page.get_by_role("option", name="Additional input", exact=True).click()
    seen(page, "3 cases ready, 1 row with errors")
    page.get_by_label("What nr is").click()
    page.get_by_role("option", name="Id", exact=True).click()
    seen(page, "2 cases ready, 2 rows with errors")
    page.get_by_label("What plan is").click()
    page.get_by_role("option", name="Question", exact=True).click()
    seen(page, "already used for column prompt")
    page.get_by_label("What plan is").click()
    page.get_by_role("option", name="Additional input", exact=True).click()
    press(page, "Import 2 cases")
    seen(page, "2 cases were added.")
    with page.expect_download() as download:
        press(page, "Download the rows to fix")
    assert (
        Path(download.value.path()).read_text(encoding="utf-8")
        == "nr;prompt;ideal;plan\na;One?;1;basic\nc;Three?;3;pro;4\n"
    )
    assert [(row["id"], row.get("reference"), row.get("vars")) for row in kept(pages, "uploaded")] == [
        ("a", None, None),
        ("b", "2", {"plan": "basic"}),
        ("d", "4", None),
    ]


def test_a_sheet_of_a_workbook_is_chosen_and_mapped(visit: Visit, pages: Server, tmp_path: Path, fits: Fits) -> None:
    define(pages, "sheeted")
    rows = [["Frage", "tags"], ["One?", "Fees"], ["Two?", "Fees"], ["Three?", None]]
    file = workbook(tmp_path / "from_excel.xlsx", {"Notes": [["note"], ["?"]], "Cases": rows, "Empty": []})
    page = visit("/datasets/sheeted/add")
    page.locator("input[type=file]").set_input_files(file)
    page.get_by_label("What note is").wait_for()
    field(page, "Sheet").click()
    page.get_by_role("option", name="Cases", exact=True).click()
    page.get_by_label("What Frage is").click()
    page.get_by_role("option", name="Question", exact=True).click()
    seen(page, "Preview of the first cases")
    fits(page, "import-sheet")
    press(page, "Import 3 cases")
    page.wait_for_url(re.compile("/datasets/sheeted$"))
    assert [row.get("tags") for row in kept(pages, "sheeted")] == [["Fees"], ["Fees"], None]
    broken = tmp_path / "locked.xlsx"
    broken.write_bytes(compound("EncryptionInfo", "EncryptedPackage"))
    page = visit("/datasets/sheeted/add")
    page.locator("input[type=file]").set_input_files(broken)
    seen(page, "locked.xlsx: the workbook is protected by a password")


def test_what_cannot_be_taken_says_why(visit: Visit, pages: Server, tmp_path: Path) -> None:
    define(pages, "bounded")
    large, broken, other = tmp_path / "large.csv", tmp_path / "broken.csv", tmp_path / "cases.xls"
    with large.open("wb") as file:
        file.truncate(200 << 20)
    broken.write_text('question\nfine\n"never closed\nlost\n', encoding="utf-8")
    other.write_bytes(b"PK")
    page = visit("/datasets/bounded/add")
    choose = page.locator("input[type=file]")
    choose.set_input_files(large)
    seen(page, "large.csv has 200 MB; at most 64 MB can be uploaded")
    choose.set_input_files(other)
    seen(page, "cases.xls has the wrong file type")
    choose.set_input_files(broken)
    seen(page, "broken.csv: line 3: broken CSV")
    page.wait_for_function("document.activeElement.textContent.includes('Broken CSV')")
    press(page, "Start over")
    press(page, "Continue")
    seen(page, "is required")
    field(page, "Questions, or a table").fill("question\tideal\nTwo\nlines?\t1")
    press(page, "Continue")
    seen(page, "Preview of the first cases")
    assert kept(pages, "bounded") == []


def test_many_cases_come_a_page_at_a_time_and_are_changed_together(visit: Visit, pages: Server) -> None:
    define(pages, "many", *({"id": f"c{i}", "question": f"Question {i}?", "tags": ["old"]} for i in range(5000)))
    page = visit("/datasets/many")
    seen(page, "1–50 of 5,000")
    assert page.locator("table.cases tbody tr").count() == 50
    press(page, "Next")
    seen(page, "51–100 of 5,000")
    assert page.locator("table.cases tbody tr").count() == 50
    press(page, "Previous")
    seen(page, "1–50 of 5,000")
    page.get_by_label("Select Question 3?").click()
    page.get_by_label("Select Question 7?").click()
    seen(page, "2 selected")
    press(page, "Add tag")
    page.get_by_role("dialog").get_by_role("combobox", name="Tags").fill("Fees>Refunds")
    page.keyboard.press("Enter")
    press(page, "Add")
    seen(page, "2 cases were changed")
    press(page, "Clear")
    page.get_by_label("Tag").first.click()
    page.get_by_role("option", name="Fees > Refunds (2)").click()
    seen(page, "1–2 of 2")
    page.get_by_label("Select this page").click()
    press(page, "Delete cases")
    press(page.get_by_role("dialog"), "Delete")
    seen(page, "1–50 of 4,998")
    page.get_by_label("Select this page").click()
    press(page, "Select all 4,998")
    seen(page, "4,998 selected")
    press(page, "Remove tag")
    press(page.get_by_role("dialog"), "Remove")
    seen(page, "4,998 cases were changed")
    assert pages.ask("GET", "/api/v1/datasets/many/cases?tag=old").json["items"] == []


def test_a_conversation_is_written_and_its_order_kept(visit: Visit, pages: Server) -> None:
    define(pages, "talks")
    page = visit("/datasets/talks/cases/new")
    press(page, "Save")
    seen(page, "is required")
    page.get_by_label("Turn 1, User").fill("What does it cost?")
    press(page, "Add a turn")
    page.get_by_label("Turn 2, Bot").fill("40 pounds.")
    press(page, "Save")
    page.get_by_text("The last turn must be the user's").nth(1).wait_for()  # at the field, and below
    press(page, "Add a turn")
    page.get_by_label("Turn 3, User").fill("Per month?")
    press(page, "Save and write another")
    page.get_by_label("Turn 3, User").wait_for(state="detached")  # the form is empty again
    assert page.get_by_label("Turn 1, User").input_value() == ""
    (case,) = kept(pages, "talks")
    assert [message["role"] for message in case["messages"]] == ["user", "assistant", "user"]


def test_a_simulated_user_is_written_and_changed(visit: Visit, pages: Server) -> None:
    define(pages, "users")
    page = visit("/datasets/users/cases/new")
    page.get_by_text("Simulated user", exact=True).click()
    field(page, "Goal").fill("Learn what a permit costs.")
    press(page, "Save")
    seen(page, "without it nobody is simulated")
    field(page, "Situation").fill("You have moved and want to park.")
    field(page, "Facts").fill("You live in Mill Lane 4.\n\nThe car is yours.")
    press(page, "Save")
    page.wait_for_url("**/datasets/users?row=*")
    facts = ["You live in Mill Lane 4.", "The car is yours."]
    (case,) = kept(pages, "users")
    brief = {"scenario": "You have moved and want to park.", "goal": "Learn what a permit costs.", "facts": facts}
    assert {key: case[key] for key in case if key != "id"} == brief
    page.get_by_role("link", name="You have moved and want to park.").click()
    page.get_by_label("Turn 1, User").fill("Good morning.")
    press(page, "Add a turn")
    page.get_by_label("Turn 2, Bot").fill("What can I do for you?")
    seen(page, "Not saved yet")
    press(page, "Save")
    saved(page)
    (case,) = kept(pages, "users")
    assert [one["role"] for one in case["messages"]] == ["user", "assistant"]
    assert case["facts"] == facts
    assert page.get_by_text("The last turn must be").count() == 0


def test_somebody_elses_change_is_not_overwritten(visit: Visit, pages: Server) -> None:
    define(pages, "shared", {"id": "x", "question": "q", "reference": "old"})
    case = pages.ask("GET", "/api/v1/datasets/shared/cases").json["items"][0]
    path = f"/datasets/shared/cases/{case['id']}"
    page = visit(path)
    theirs = pages.ask("PUT", f"/api/v1{path}", {"question": "q", "reference": "theirs"}, If_Match='"1"')
    assert theirs.status == 200
    field(page, "Expected answer").fill("mine")
    press(page, "Save")
    seen(page, "version 2, not 1; it differs from yours in reference")
    row = page.locator(".differing tbody tr").filter(has_text="Expected answer")
    assert (row.locator("del").inner_text(), row.locator("ins").inner_text()) == ("theirs", "mine")
    assert field(page, "Expected answer").input_value() == "mine"
    assert kept(pages, "shared")[0]["reference"] == "theirs"
    press(page, "Overwrite with mine")
    saved(page)
    assert kept(pages, "shared")[0]["reference"] == "mine"
    other = visit(path)
    theirs = pages.ask("PUT", f"/api/v1{path}", {"question": "q", "reference": "newer"}, If_Match='"3"')
    field(other, "Expected answer").fill("mine again")
    press(other, "Save")
    press(other, "Discard mine")
    other.locator(".differing").wait_for(state="detached")
    assert field(other, "Expected answer").input_value() == "newer"


def test_one_comes_back_to_where_one_was(visit: Visit, pages: Server) -> None:
    cases = [{"id": f"c{n}", "question": f"Question {n}?", "tags": ["odd"] if n % 2 else ["even"]} for n in range(250)]
    define(pages, "long", *cases)
    page = visit("/datasets/long?tag=odd&text=question")
    seen(page, "1–50 of 125")
    press(page, "Next")
    seen(page, "51–100 of 125")
    page.get_by_role("link", name="Question 121?").click()
    page.wait_for_url("**/cases/*")
    seen(page, "61 of 125")
    field(page, "Expected answer").fill("Yes.")
    press(page, "Save and go to the next")
    seen(page, "62 of 125")
    assert page.get_by_label("Turn 1, User").input_value() == "Question 123?"
    page.keyboard.press("k")
    seen(page, "61 of 125")
    assert field(page, "Expected answer").input_value() == "Yes."
    field(page, "Expected answer").fill("No.")
    press(page, "Save")
    saved(page)
    page.get_by_role("link", name="← long").click()
    page.wait_for_url("**/datasets/long?tag=odd&text=question&first=50&row=*")
    seen(page, "51–100 of 125")
    page.wait_for_function("document.activeElement.textContent === 'Question 121?'")
    page.get_by_role("link", name="Question 121?").click()
    page.wait_for_url("**/cases/*")
    press(page, "Delete")
    press(page.get_by_role("dialog"), "Delete")
    seen(page, "51–100 of 124")
    page.wait_for_function("document.activeElement.textContent === 'Question 123?'")


def test_text_of_files_is_only_text(visit: Visit, pages: Server, tmp_path: Path) -> None:
    case = {"id": EVIL, "question": EVIL, "reference": EVIL, "tags": [EVIL], "contexts": [EVIL], "vars": {EVIL: EVIL}}
    define(pages, "evil", case)
    page = visit("/datasets/evil")
    page.get_by_role("link", name=EVIL).click()
    page.wait_for_url("**/cases/*")
    page.get_by_role("heading", name=EVIL, level=1).wait_for()
    file = tmp_path / "evil.jsonl"
    file.write_text(json.dumps({"query": EVIL, EVIL: EVIL, "tags": [EVIL]}) + "\n" + '{"tags": 3}\n', encoding="utf-8")
    uploading = visit("/datasets/evil/add")
    uploading.locator("input[type=file]").set_input_files(file)
    seen(uploading, "1 case ready, 1 row with errors")
    for shown in (page, uploading):
        assert shown.locator("img[src=x]").count() == 0
        assert shown.title().endswith("evalflow")


def test_what_conf_declares_is_read_and_copied(visit: Visit, pages: Server) -> None:
    page = visit("/datasets/rag")
    seen(page, "read-only")
    seen(page, "1–50 of 60")
    tag = page.get_by_label("Tag")
    tag.click()
    page.get_by_role("option").nth(1).click()
    page.wait_for_url("**/datasets/rag?tag=*")
    field(page, "Search").fill("no such words")
    seen(page, "No matching cases")
    press(page, "Show all cases")
    seen(page, "1–50 of 60")
    assert page.get_by_role("checkbox").count() == 0
    page.get_by_role("link", name="Copy").click()
    field(page, "Name").fill("Rag")
    press(page, "Copy")
    seen(page, "There already is a dataset called 'rag'")
    field(page, "Name").fill("my_rag")
    press(page, "Copy")
    seen(page, "1–50 of 60")
    assert kept(pages, "my_rag") == kept(pages, "rag")
    page.get_by_role("link", name="Edit").click()
    field(page, "Description").fill("Mine.")
    press(page, "Save")
    page.wait_for_url("**/datasets/my_rag")
    seen(page, "Mine.")
    press(page, "Delete")
    press(page.get_by_role("dialog"), "Delete")
    page.wait_for_url("**/datasets")
    assert pages.ask("GET", "/api/v1/datasets/my_rag").status == 404


def test_pages_full_of_cases_fit(visit: Visit, pages: Server, fits: Fits, tmp_path: Path) -> None:
    assert pages.ask("POST", "/api/v1/datasets/rag/copies", {"name": "shown"}).status == 201
    pages.ask("POST", "/api/v1/datasets", {"name": "blank", "description": "Nothing is in it."})
    case = pages.ask("GET", "/api/v1/datasets/shown/cases").json["items"][0]["id"]
    file = tmp_path / "cases.csv"
    file.write_text("nr,prompt,ideal,plan\na,One?,1,basic\nb,Two?,2,basic\nc,Three?,3,pro,4\n", "utf-8")
    for path in ("/blank", "/blank/add", "/shown", f"/shown/cases/{case}", "/rag", "/none"):
        page = visit(f"/datasets{path}", 390, "dark")
        if path == "/shown":
            page.locator(".tick-box").nth(2).click()
            seen(page, "1 selected")
        if path == "/blank/add":
            page.locator("input[type=file]").set_input_files(file)
            seen(page, "2 cases ready, 1 row with errors")
        fits(page, f"datasets{path.replace('/', '-')}")


def test_a_case_is_written_with_its_checks_tried_saved_as_a_draft_and_activated(visit: Visit, pages: Server) -> None:
    define(pages, "studio", {"id": "old", "question": "Old?", "tags": ["User Issues > Hallucination"]})
    page = visit("/datasets/studio/cases/new")
    page.get_by_label("Turn 1, User").fill("Which language is it written in?")
    press(page, "Add a turn")
    page.get_by_label("Turn 2, Bot").fill("Hello! What would you like to know?")
    seen(page, "The last turn must be the user's")
    page.keyboard.press("Alt+ArrowUp")  # the turns change places
    page.get_by_label("Turn 1, Bot").wait_for()
    assert page.get_by_label("Turn 2, User").input_value() == "Which language is it written in?"
    page.get_by_label("Answer example", exact=True).fill("Hi, it is Python.")
    cards = page.locator(".check-card")
    for number, kind in enumerate(("String matching", "Metadata", "Conformity")):
        press(page, "Add a check")
        page.get_by_text(re.compile(rf"^{kind}:")).click()
        cards.nth(number).wait_for()
        page.locator(".check-menu").wait_for(state="detached")
    field(cards.nth(0), "Keyword").fill("Hello")
    seen(page, "The agent answer does not contain the keyword 'Hello'")
    page.get_by_label("Answer example", exact=True).fill("Hello, it is Python.")
    cards.nth(0).get_by_text("passed", exact=True).wait_for()
    page.get_by_label("JSON path 1").fill("$.user.name")
    page.get_by_label("Value 1").fill("John")
    page.get_by_text("Metadata", exact=True).first.click()
    field(page, "Metadata of the answer").fill('{"user": {"name": "Doe"}}')
    seen(page, "Expected John at $.user.name but got Doe")
    page.get_by_label("Rule 1").fill("The agent should only answer in English.")
    seen(page, "A judge decides this.")
    page.get_by_role("combobox", name="Tags").fill("user issues > halucination")
    page.keyboard.press("Enter")
    press(page, "Use User Issues > Hallucination")
    press(page, "Save as draft")
    page.wait_for_url("**/datasets/studio?row=*")
    page.get_by_role("combobox", name="State").click()
    page.get_by_role("option", name="Drafts").click()
    seen(page, "1–1 of 1")
    page.get_by_role("link", name="Which language is it written in?").click()
    page.wait_for_url("**/cases/*?state=draft")
    press(page, "Save and activate")
    page.get_by_role("button", name="Make it a draft").wait_for()
    case = kept(pages, "studio")[1]
    assert case["tags"] == ["User Issues > Hallucination"]
    assert [check["identifier"] for check in case["checks"]] == ["string_matching", "metadata", "conformity"]
    assert case["demo_answer"]["metadata"] == {"user": {"name": "Doe"}}
