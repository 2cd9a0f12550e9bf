"""Two people label on a public server, each at a browser: nothing that comes tells of judge, run or colleague."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.store import reviews as stored
from evalflow.addons.studio.web.application import API
from evalflow.addons.studio.work import people, projects, review_desk, review_guidelines, review_results, reviews
from evalflow.addons.studio.work.review_desk import next_item
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.space import Workspace
from tests.addons.studio.web.conftest import working_in
from tests.addons.studio.web.judged import BOT, CASE, DATASET, JUDGE, SECRETS, finish_judged
from tests.addons.studio.web.public import PublicServer, serving_in_public
from tests.addons.studio.work.test_reviews import person
from tests.docs.test_access import BODIES, QUERIES, declared_pages

pytestmark = [pytest.mark.slow, pytest.mark.browser]
ANN, BEN = "annalisa", "benedikta"
PATIENCE_S = 60
COMMENT = "Roundedup"
"""What Ben says of the first answer."""


@dataclass(frozen=True)
class Place:
    """The server, its folder, and the run whose answers are labelled."""

    server: PublicServer
    folder: Path
    run: str


@pytest.fixture(name="place", scope="module")
def _place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("blind")
    with working_in(folder) as space:
        run = finish_judged(space, 9).run_id
        for name in (ANN, BEN):
            people.add_user(space, name)
            projects.set_role(space, name, "annotator")
        for name, size, overlap in (("Fees", 3, 1.0), ("Later", 4, 0.0)):
            request = ReviewRequest(
                name=name, run_id=run, metrics=["right"], size=size, people=[ANN, BEN], overlap=overlap, seed=1
            )
            reviews.create_review(space, request)
    with serving_in_public(folder) as server:
        yield Place(server, folder, run)


@dataclass
class Visitor:
    """A person at a browser, and all that it receives: pages, answers, frames and addresses.

    Scripts that the framework has on its disk, the same for everybody, are not listened to.
    """

    page: Any
    received: list[str] = field(default_factory=list)
    unheard: list[str] = field(default_factory=list)

    def relay(self, route: Any) -> None:
        """Fetch what the browser asks for, and keep it."""
        response = route.fetch()
        self.received += [route.request.url, str(response.headers), response.body().decode("utf-8", "replace")]
        route.fulfill(response=response)

    def asked(self, request: Any) -> None:
        """Note what is answered neither to `relay` nor in a frame."""
        if "transport=polling" in request.url:
            self.unheard.append(request.url)

    def hear(self, socket: Any) -> None:
        """Keep each frame of a websocket."""
        socket.on("framereceived", lambda one: self.received.append(one if isinstance(one, str) else one.decode()))

    def open(self, path: str) -> None:
        self.page.goto(path)
        self.page.wait_for_function("window.did_handshake === true")

    def expect_blind(self, colleague: str) -> None:
        """Nothing that came tells of what is scored, by what, or by whom."""
        self.received += [self.page.content(), self.page.url]
        assert not self.unheard
        found = {word for word in (*SECRETS, colleague, COMMENT) for one in self.received if word in one}
        assert not found, [one[:2000] for one in self.received if any(word in one for word in found)][:2]


@pytest.fixture(name="arrive")
def _arrive(browser: Any, place: Place) -> Iterator[Callable[..., Visitor]]:
    contexts: list[Any] = []
    troubles: list[str] = []

    def arrive(name: str, width: int, colours: str) -> Visitor:
        size = {"width": width, "height": 844}
        context = browser.new_context(
            ignore_https_errors=True, base_url=place.server.url, viewport=size, color_scheme=colours
        )
        context.grant_permissions(["local-network-access"])  # a page that is relayed comes from no known network
        context.set_default_timeout(60_000)
        contexts.append(context)
        visitor = Visitor(context.new_page())
        visitor.page.on("websocket", visitor.hear)
        visitor.page.on("pageerror", lambda error: troubles.append(str(error)))
        place.server.let_in(context, name)
        visitor.page.goto("/")
        visitor.page.wait_for_url("**/reviews")  # what there is to do comes first
        visitor.page.get_by_role("heading", name="Fees").wait_for()
        context.route(re.compile("^(?!.*/_nicegui)"), visitor.relay)
        visitor.page.on("request", visitor.asked)
        return visitor

    yield arrive
    for context in contexts:
        context.close()
    assert troubles == []


def submit(page: Any, how: Callable[[], None]) -> None:
    """Submit, and wait for the next answer or the end."""
    before = page.locator("[data-answer]").get_attribute("data-answer")
    how()
    page.wait_for_function("was => document.querySelector('[data-answer]')?.dataset.answer !== was", arg=before)


def test_two_people_label_and_receive_nothing_of_judge_run_or_colleague(
    place: Place, arrive: Callable[..., Visitor]
) -> None:
    ben = arrive(BEN, 390, "dark")
    ben.open("/reviews")
    ben.page.get_by_role("link", name="Begin Fees").click()
    ben.page.wait_for_url("**/reviews/Fees/label*")
    ben.page.wait_for_function("window.did_handshake === true")
    ben.page.get_by_role("button", name="No", exact=True).click()
    ben.page.get_by_label("Comment").fill(COMMENT)
    ben.page.get_by_role("button", name="Flag", exact=True).click()
    ben.page.get_by_text("Saved", exact=True).wait_for()
    own = [one for one in ben.received if COMMENT in one]
    submit(ben.page, ben.page.get_by_role("button", name="Submit").click)
    ben.received = [one for one in ben.received if one not in own]
    ben.expect_blind(ANN)
    ben.page.close()

    ann = arrive(ANN, 1280, "light")
    ann.open("/reviews")
    ann.page.get_by_role("link", name="Begin Fees").focus()
    ann.page.keyboard.press("Enter")
    ann.page.wait_for_url("**/reviews/Fees/label*")
    ann.page.wait_for_function("window.did_handshake === true")
    ann.page.locator(".grading:focus-within").wait_for()
    assert not ann.page.get_by_role("button", name="Flagged").count()
    ann.expect_blind(BEN)
    for key in ("1", "2", "u"):
        ann.page.keyboard.press(key)
        ann.page.locator(".grading [aria-pressed=true]").wait_for()
        submit(ann.page, lambda: ann.page.keyboard.press("Control+Enter"))
    ann.page.get_by_role("heading", name="All done, thank you").wait_for()
    ann.open("/reviews")
    ann.page.get_by_text("3 of 3 done").wait_for()
    ann.expect_blind(BEN)
    assert sum("What is fee" in one for one in ann.received) > 2  # what was to be read has been heard
    expect_refused(place)


def expect_refused(place: Place) -> None:
    """Whatever Ann asks for by hand is refused, or tells nothing."""
    names = {"run": place.run, "review": "Fees", "item": "0", "bot": BOT, "metric": "right", "judge": JUDGE}
    names |= {"dataset": DATASET, "case": "1", "score": "0-0", "position": "0", "file": "report.html", "user": BEN}
    names |= {"check": "kind", "task": "1", "comment": "1", "project": "default", "connection": "openai"}
    names |= {"session": "99", "token": "99"}
    with place.server.client(Cookie=place.server.sign_in(ANN), Origin=place.server.url) as ann:

        def tells(method: str, path: str, body: Any = None) -> int:
            filled = re.sub(r"\{(\w+)\}", lambda found: names[found[1]], path)
            query = QUERIES.get(f"{method} {path.removeprefix(API)}", "").format(**names)
            reply = ann.request(
                method, f"{filled}?{query}", json=body, headers={"If-Match": '"1"', "X-Requested-With": "test"}
            )
            said = f"{reply.headers}{reply.text}".replace(filled, "")
            asked = f"{filled}{query}"
            assert not [word for word in (*SECRETS, BEN, COMMENT) if word in said and word not in asked], (path, said)
            return reply.status_code

        operations = [
            (method.upper(), path)
            for path, ways in ann.get(f"{API}/openapi.json").json()["paths"].items()
            for method in ways
        ]
        assert len(operations) > 100
        allowed = {
            "/reviews",
            "/reviews/{review}/mine",
            "/me",
            "/projects",
            "/sessions",
            "/passkeys",
            "/tokens",
            "/projects/{project}",
        }
        for method, path in operations:
            if method == "GET":
                status = tells(method, f"{API}{path}")
                assert status in ((200, 403) if path in allowed else (403, 404)), (path, status)
            elif re.match(r"/(reviews|runs|tasks|comments)\b", path):
                status = tells(method, f"{API}{path}", BODIES.get(f"{method} {path}"))
                of_desk = re.match(r"/reviews/.*/(next|open|draft|submit|decline)$", path) is not None
                assert (status == 403) != of_desk, (method, path, status)
        for path, needs in declared_pages().items():
            status = tells("GET", path)
            expected = 307 if path == "/" else 200 if needs in ("label", "account") else 403
            assert status == expected, (path, status)


def space_of(place: Place, work: Callable[[Workspace], object]) -> None:
    with working_in(place.folder) as space:
        work(space)


def until_drafted(place: Place, wanted: Mapping[str, object]) -> None:
    """Wait until the draft of Ann's open answer has these values: what the page shows may be of before."""
    deadline = time.monotonic() + PATIENCE_S
    with working_in(place.folder) as space:
        ann = person(space, ANN)
        while True:
            item = next_item(ann, "Later")
            assert item is not None
            if all(item.draft.get(name) == value for name, value in wanted.items()):
                return
            assert time.monotonic() < deadline, item.draft
            time.sleep(0.1)


def test_what_happens_while_an_answer_is_open(place: Place, arrive: Callable[..., Visitor]) -> None:
    page = arrive(ANN, 390, "dark").page
    page.goto("/reviews/Later/label")
    page.wait_for_function("window.did_handshake === true")

    def expire(space: Workspace) -> None:
        review = reviews.REVIEWS.get(space, "Later").id
        with space.database.writing() as connection:
            stored.change_assignment(connection, review, 0, ANN, {"expires_at": 0.0})
        found = next_item(person(space, BEN), "Later")
        assert found is not None
        assert found.item == 0

    space_of(place, expire)
    page.get_by_label("Comment").fill("Half a thought")
    page.get_by_role("heading", name="This answer cannot be submitted").wait_for()
    page.get_by_text("This answer was given to somebody else").wait_for()
    page.get_by_text("Half a thought").wait_for()
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("button", name="Yes").click()
    page.get_by_role("button", name="Yes", pressed=True).wait_for()  # else the click may be on its way still
    until_drafted(place, {"values": {"right": True}})

    page.context.set_offline(True)
    page.get_by_text("Connection lost").wait_for()
    page.get_by_label("Comment").fill("Typed in a tunnel")
    page.context.set_offline(False)
    page.wait_for_function("document.querySelector('.desk textarea')?.value === 'Typed in a tunnel'")
    until_drafted(place, {"values": {"right": True}, "comment": "Typed in a tunnel"})
    page.get_by_role("button", name="Yes", pressed=True).wait_for()
    page.get_by_text("Saved", exact=True).wait_for()

    space_of(place, lambda space: review_guidelines.revise_guidelines(space, "Later", 1, {"right": "Cents count too."}))
    page.get_by_role("button", name="Submit").click()
    page.get_by_text("The guidelines were changed while you had this answer open").first.wait_for()
    page.get_by_text("Cents count too.").wait_for()
    assert page.get_by_label("Comment").input_value() == "Typed in a tunnel"
    submit(page, page.get_by_role("button", name="Submit").click)

    space_of(place, lambda space: review_results.close_review(space, "Later", 2))
    page.goto("/reviews")
    page.get_by_role("link", name="Finish Later").click()
    page.wait_for_url("**/reviews/Later/label*")
    page.wait_for_function("window.did_handshake === true")
    page.get_by_role("button", name="No", exact=True).click()
    submit(page, page.get_by_role("button", name="Submit").click)
    page.get_by_role("heading", name="This review is closed").wait_for()
    with working_in(place.folder) as space:
        drafts = [one.state for one in review_desk.own_progress(person(space, ANN), "Later").items]
    assert drafts == ["open", "submitted", "submitted"]
    assert CASE not in page.content()
