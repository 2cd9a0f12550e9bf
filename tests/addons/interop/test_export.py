"""Scores on their way to an OpenTelemetry receiver: during a run, at its end, and by `export otel`."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from evalflow.addons.interop import outgoing
from evalflow.addons.interop.exporters import otel_live
from evalflow.addons.interop.exporters.otel_events import LONGEST
from tests.addons.interop.exported_runs import ROWS, SPAN, TRACE, prepare
from tests.addons.interop.exporters.receiver import OtlpReceiver, Received, Said, partial
from tests.cli.conftest import Program

NOBODY = "http://127.0.0.1:9"


def run(program: Program, url: str, *words: str, **env: str) -> Any:
    if not (program.folder / "mine.jsonl").exists():
        prepare(program)
    return program("dataset=mine", "metric=exact_match", "max_error_rate=1", f"otel.endpoint={url}", *words, **env)


def by_case(records: Sequence[Received]) -> dict[str, Received]:
    found = {one.attributes["evalflow.case.id"]: one for one in records}
    assert len(found) == len(records), "a score was sent twice"
    return found


def exported(program: Program) -> dict[str, Any]:
    [found] = program.manifest["exports"]
    return found


def test_each_score_is_one_event_with_its_state_and_no_text(program: Program) -> None:
    with OtlpReceiver() as receiver:
        done = run(program, receiver.url, OTEL_EXPORTER_OTLP_HEADERS="x-key=s3cret-value")
    assert done.returncode == 0, done.stderr
    found = by_case(receiver.accepted)
    values = {
        name: tuple(one.attributes.get(f"gen_ai.evaluation.score.{key}") for key in ("value", "label"))
        for name, one in found.items()
    }
    none = (None, None)
    assert values == {"right": (1.0, "pass"), "wrong": (0.0, "fail"), "lacking": none, "failed": none}
    states = {name: one.attributes["evalflow.score.state"] for name, one in found.items()}
    assert states == {"right": "scored", "wrong": "scored", "lacking": "skipped", "failed": "error"}
    right, failed = found["right"], found["failed"]
    assert (right.event, right.trace, right.span) == ("gen_ai.evaluation.result", TRACE, SPAN)
    assert right.attributes["gen_ai.evaluation.name"] == "exact_match"
    assert right.attributes["gen_ai.response.id"] == "chatcmpl-1"
    assert right.resource["service.name"] == "evalflow"
    assert (failed.trace, failed.span, failed.attributes["error.type"]) == ("", "", "target: recorded")
    assert {headers["x-key"] for headers in receiver.headers} == {"s3cret-value"}
    assert set(receiver.paths) == {"/v1/logs"}
    assert "7Q" not in repr(receiver.requests)
    assert "s3cret-value" not in "".join(
        path.read_text("latin-1") for path in program.latest.rglob("*") if path.is_file()
    )
    assert f"otel: 4 of 4 scores sent to {receiver.url}/v1/logs" in done.stderr
    assert {key: exported(program)[key] for key in ("sent", "rejected", "unsent", "why")} == {
        "sent": 4,
        "rejected": 0,
        "unsent": 0,
        "why": None,
    }


@pytest.mark.parametrize(("text", "reason", "answer"), [("reasons", True, False), ("all", True, True)])
def test_texts_are_sent_if_asked_for(program: Program, text: str, reason: bool, answer: bool) -> None:
    with OtlpReceiver() as receiver:
        run(program, receiver.url, f"otel.text={text}")
    wrong = by_case(receiver.accepted)["wrong"].attributes
    assert ("gen_ai.evaluation.explanation" in wrong) == reason
    assert wrong.get("evalflow.answer") == ("Lyon-7Q" if answer else None)
    assert wrong.get("evalflow.question") == ("Which-7Q?" if answer else None)


def test_a_long_reason_is_shortened(program: Program) -> None:
    prepare(program, [{"id": "a", "question": "?", "answer": "x" * 10_000_000, "reference": "y"}])
    with OtlpReceiver() as receiver:
        run(program, receiver.url, "otel.text=all")
    [one] = receiver.accepted
    assert one.attributes["evalflow.answer"] == "x" * LONGEST + "... (10,000,000 characters)"


def test_an_answer_that_a_target_gave_is_linked_by_what_the_target_returns(program: Program) -> None:
    """A case from a trace that a target answers anew is not about the old span."""
    prepare(program)
    rows = [{**row, "answer": None} for row in ROWS[:2]]
    program.write("mine.jsonl", *rows)
    linked = {"trace_id": TRACE[::-1], "span_id": SPAN[::-1]}
    script = f"""
import json, sys
case = json.load(sys.stdin)
said = {{"answer": "Paris-7Q"}}
if case["id"] == "wrong":
    said["metadata"] = {linked!r}
print(json.dumps(said))
"""
    (program.folder / "bot.py").write_text(script, encoding="utf-8")
    words = ("generate=true", "target=command", "target.argv=[python,bot.py]")
    with OtlpReceiver() as receiver:
        done = run(program, receiver.url, *words)
    assert done.returncode == 0, done.stderr
    found = by_case(receiver.accepted)
    assert (found["right"].trace, found["right"].span) == ("", "")
    assert (found["wrong"].trace, found["wrong"].span) == (TRACE[::-1], SPAN[::-1])


def test_a_run_is_as_good_without_a_receiver_and_can_be_sent_afterwards_once(program: Program) -> None:
    done = run(program, NOBODY)
    assert done.returncode == 0, done.stderr
    assert "4 not sent: no connection" in done.stderr
    assert exported(program)["unsent"] == 4
    again = re.search(r"send them: python -m evalflow (.*)", done.stderr)
    assert again is not None
    assert program(*again[1].split()).returncode == 5  # still nobody
    with OtlpReceiver() as receiver:
        words = (*again[1].split(), "--to", receiver.url)
        first, second = program(*words), program(*words)
        sent = by_case(receiver.accepted)
        assert len(receiver.requests) == 1
        assert program(*words, "--again", "--text", "reasons").returncode == 0
    assert (first.returncode, second.returncode) == (0, 0), first.stderr
    assert "4 of 4 scores sent" in second.stdout
    later = by_case(receiver.requests[1])
    assert {name: one.uid for name, one in later.items()} == {name: one.uid for name, one in sent.items()}
    assert "gen_ai.evaluation.explanation" in later["wrong"].attributes
    nobody, receiving = program.manifest["exports"]
    assert (nobody["where"], nobody["unsent"]) == (f"{NOBODY}/v1/logs", 4)
    assert (receiving["sent"], receiving["unsent"]) == (4, 0)


def test_a_run_that_was_killed_sends_all_its_scores_once_it_is_finished(program: Program) -> None:
    """Killed while a request is under way: what the receiver had taken by then may come twice, with the same uid."""
    prepare(program, [{"id": str(n), "question": "?", "answer": "a", "reference": "a"} for n in range(40)])
    held, killed = threading.Event(), threading.Event()

    def hold(number: int, _: Sequence[Received]) -> Said | None:
        if number == 0:
            held.set()
            killed.wait(60)
        return None

    with OtlpReceiver(hold) as receiver:
        process = program.begin(
            "dataset=mine", "metric=exact_match", f"otel.endpoint={receiver.url}", "hydra.run.dir=outputs/one"
        )
        assert held.wait(120)
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed.set()
        folder = program.folder / "outputs" / "one"
        assert program("resume", str(folder)).returncode == 0
        uids = [one.uid for one in receiver.accepted]
    assert len(set(uids)) == 40
    assert json.loads((folder / "run.json").read_text())["exports"][0]["sent"] == 40


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (Said(503, headers={"Retry-After": "0"}), "HTTP 503"),
        (Said(401, b"no such key", "text/plain"), "HTTP 401: no such key"),
        (Said(302, headers={"Location": "http://127.0.0.1:9/"}), "HTTP 302"),
        (Said(200, b"<html>Log in</html>", "text/html"), "HTTP 200 with text/html, which no OTLP receiver does"),
        (Said(200, b"\xff\xff\xff"), "HTTP 200 with application/x-protobuf"),
    ],
)
def test_what_a_receiver_does_not_take_is_counted(program: Program, said: Said, why: str) -> None:
    with OtlpReceiver(lambda *_: said) as receiver:
        done = run(program, receiver.url, "otel.timeout_s=3")
    assert done.returncode == 0, done.stderr
    found = exported(program)
    assert (found["sent"], found["unsent"]) == (0, 4)
    assert why in found["why"]
    assert why in done.stderr


def test_a_receiver_that_takes_it_at_the_second_try_has_it_once(program: Program) -> None:
    busy = Said(429, headers={"Retry-After": "0"})
    with OtlpReceiver(lambda number, _: busy if number == 0 else None) as receiver:
        run(program, receiver.url)
    assert len(by_case(receiver.accepted)) == 4
    assert exported(program)["sent"] == 4


def test_a_receiver_that_rejects_some_is_not_asked_again(program: Program) -> None:
    with OtlpReceiver(lambda *_: partial(2, "too old")) as receiver:
        done = run(program, receiver.url)
        assert len(receiver.requests) == 1
        again = program("export", "otel")
        assert len(receiver.requests) == 1
    assert "2 of 4 scores sent" in done.stderr
    assert "2 rejected, which are not sent again: rejected: too old" in done.stderr
    assert exported(program)["rejected"] == 2
    assert again.returncode == 0


def test_a_silent_receiver_holds_a_run_up_for_its_timeout_only(program: Program) -> None:
    over = threading.Event()

    def silent(*_: object) -> None:
        over.wait(120)

    with OtlpReceiver(silent) as receiver:
        done = run(program, receiver.url, "otel.timeout_s=0.5")
        over.set()
    assert done.returncode == 0, done.stderr
    assert exported(program)["unsent"] == 4
    # The second, if the run took long enough for a first request before its end.
    assert re.search("not sent: (no whole response within|the time was over)", done.stderr)


def test_what_does_not_fit_into_the_queue_is_sent_at_the_end(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel_live, "WAITING", 0)
    with OtlpReceiver() as receiver:
        run(program, receiver.url)
    assert len(by_case(receiver.accepted)) == 4


def test_a_fault_of_the_sending_does_not_end_the_run(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(otel_live, "deliver", fails)
    monkeypatch.setattr(outgoing, "deliver", fails)
    done = run(program, NOBODY)
    assert done.returncode == 0, done.stderr
    assert "4 not sent: RuntimeError: a fault" in done.stderr


def test_composites_are_sent_too(program: Program) -> None:
    """They are computed from the scores at the end."""
    prepare(program)
    (program.folder / "conf" / "metric").mkdir()
    both = "# @package metric.both\nkind: composite\nof: [exact_match]\nop: mean\n"
    (program.folder / "conf" / "metric" / "both.yaml").write_text(both, encoding="utf-8")
    with OtlpReceiver() as receiver:
        done = run(program, receiver.url, "metric=[exact_match,both]")
    assert done.returncode == 0, done.stderr + done.stdout
    names = [one.attributes["gen_ai.evaluation.name"] for one in receiver.accepted]
    assert (names.count("exact_match"), names.count("both")) == (4, 4)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:4318", "http://user:key@127.0.0.1:4318", "http://127.0.0.1:4318?key=1", "ftp://127.0.0.1"]
)
def test_an_address_is_checked_before_anything_is_sent(program: Program, url: str) -> None:
    prepare(program)
    for done in (run(program, f"'{url}'"), program("export", "otel", "--to", url)):
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
    assert "OTEL_EXPORTER_OTLP_HEADERS" in run(program, f"'{url}'").stderr


def test_export_needs_an_address(program: Program) -> None:
    run(program, "null")
    done = program("export", "otel")
    assert done.returncode == 2
    hint = re.search(r"name one: python -m evalflow (.*)", done.stderr)
    assert hint is not None
    assert program(*hint[1].split()).returncode in (0, 5)


def test_a_public_server_sends_to_its_connections_only_and_with_their_keys(program: Program) -> None:
    def connect(address: str, networks: str) -> str:
        one = {"name": "own", "address": address, "api_key_env": "OWN_KEY", "networks": [networks]}
        path = program.folder / "connections.json"
        path.write_text(json.dumps([one]), encoding="utf-8")
        return str(path)

    with OtlpReceiver() as receiver:
        keys = {"OWN_KEY": "own-key-1234", "OTEL_EXPORTER_OTLP_HEADERS": "x-key=other"}
        allowed = connect(receiver.url, "127.0.0.1/32")
        assert run(program, receiver.url, EVALFLOW_CONNECTIONS=allowed, **keys).returncode == 0
        assert {one["authorization"] for one in receiver.headers} == {"Bearer own-key-1234"}
        assert not any("x-key" in one for one in receiver.headers)
        count = len(receiver.requests)
        elsewhere = connect(receiver.url, "10.0.0.0/8")
        assert run(program, receiver.url, EVALFLOW_CONNECTIONS=elsewhere, **keys).returncode == 0
        assert "outside of the connection's networks" in exported(program)["why"]
        refused = run(program, receiver.url, EVALFLOW_CONNECTIONS=connect("http://127.0.0.1:9/x", "127.0.0.1/32"))
        assert len(receiver.requests) == count
    assert refused.returncode == 2
    assert "belongs to no connection of this server" in refused.stderr


def test_scores_are_sent_while_the_run_goes_on(program: Program) -> None:
    """The bot answers the second case only once the score of the first has arrived."""
    arrived = program.folder / "arrived"
    bot = """
import json, pathlib, sys, time
case = json.load(sys.stdin)
while case["id"] == "second" and not pathlib.Path("arrived").exists():
    time.sleep(0.05)
print(json.dumps({"answer": "yes"}))
"""
    (program.folder / "bot.py").write_text(bot, encoding="utf-8")
    prepare(program, [{"id": name, "question": "?", "reference": "yes"} for name in ("first", "second")])
    words = ("generate=true", "target=command", "target.argv=[python,bot.py]", "case_timeout_s=60")
    with OtlpReceiver(lambda *_: arrived.touch()) as receiver:
        done = run(program, receiver.url, *words)
    assert done.returncode == 0, done.stderr
    assert [[one.attributes["evalflow.case.id"] for one in batch] for batch in receiver.requests] == [
        ["first"],
        ["second"],
    ]
    assert {one.attributes["evalflow.score.state"] for one in receiver.accepted} == {"scored"}
