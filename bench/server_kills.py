"""A server, its worker and its runs, backups, restores and imports that are killed at random: what is lost or wrong.

    python bench/server_kills.py [WHAT ...] [--kills N] [--seed N] [--public] [--database-url URL]

WHAT is `runs`, `backup`, `restore` or `import`; all of them without it. Each is killed with SIGKILL at N random times.

- runs: a run of calls of 20 ms each is under way while a person labels answers. The server, its worker or the run's
  process is killed, and the server started again, until the run ends. Then each case must be scored once, and each
  label that was acknowledged must be there. Calls beyond one for each prompt were paid twice; they are compared with
  the calls of the last quarter of a second before each kill.
- backup: its file must be whole or missing, and the next backup must succeed.
- restore: the workspace must be whole, or the server must refuse to start in it.
- import: the server is killed while 2,000 cases are uploaded, which must all be there or none.

With a URL, runs and imports use that PostgreSQL database, which must be empty; each restore uses a file. With
`--public`, runs and imports are on a server for people with accounts, and an editor's token asks for everything; after
each kill an editor's and a viewer's session must be as before.
The exit code is 1 if something was lost or wrong.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from _lab import folder, machine, print_table

from evalflow.testing import Endpoint, Request, auto

LATENCY_S = 0.02
RECENT_S = 0.25
CASES = 40
IMPORTED = 2000
STORED, FOLDERS = 1000, 30
GRADE: dict[str, Any] = {
    **{"kind": "rubric", "needs": ["question", "answer"], "description": "How good."},
    "scale": {"type": "likert", "min": 1, "max": 5},
}


@dataclass(frozen=True)
class Deployment:
    """Where servers are: the database, None for a file, and whether people sign in."""

    url: str | None = None
    is_public: bool = False


class Served:
    """A server on loopback in a folder, and how it is asked.

    A public one is asked as by its reverse proxy, and may call `allowed`.
    """

    def __init__(self, work: Path, place: Deployment, allowed: str = "https://example.org") -> None:
        self.work, self._place = work, place
        self._words = ["--database-url", place.url] if place.url else []
        self._known: dict[str, str] = {}
        if place.is_public:
            self._words += ["--public", f"https://{NAME}", "--proxy", "127.0.0.1/32"]
            self._known, self.sessions = set_up(work, place.url, allowed)
        self.start()

    def start(self) -> None:
        """Start it, in the place of one that has ended."""
        command = [sys.executable, "-m", "evalflow", "serve", "--port", "0", *self._words]
        with (self.work / "server.txt").open("a") as errors:
            self.process = subprocess.Popen(command, cwd=self.work, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)(?:/\?token=(\S+) )?", line)
        if not found:
            raise RuntimeError(line + (self.work / "server.txt").read_text())
        self._port = int(found[1])
        if not self._place.is_public:
            self._known = {"Authorization": f"Bearer {found[2]}"}

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()

    def children(self) -> list[int]:
        """The worker."""
        tasks = Path(f"/proc/{self.process.pid}/task")
        return [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The JSON or text of an answer. Raises OSError or HTTPException if the server is away."""
        sent = {**self._known, "X-Requested-With": "bench"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request(method, f"/api/v1{path}", data, sent)
            reply = connection.getresponse()
            text = reply.read().decode()
        finally:
            connection.close()
        if reply.status >= 300:
            raise RuntimeError(f"{method} {path}: {reply.status} {text[:300]}")
        return json.loads(text) if text and reply.headers.get_content_type() == "application/json" else text

    def rights(self) -> list[int]:
        """The statuses of making a dataset again by the sessions of an editor and of a viewer."""
        statuses: list[int] = []
        for cookie in self.sessions:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            try:
                sent = {name: value for name, value in self._known.items() if name != "Authorization"}
                sent |= {"Cookie": cookie, "Content-Type": "application/json"}
                connection.request("POST", "/api/v1/datasets", b'{"name": "mine"}', sent)
                statuses.append(connection.getresponse().status)
            finally:
                connection.close()
        return statuses


NAME = "evalflow.example"


def set_up(work: Path, url: str | None, allowed: str) -> tuple[dict[str, str], list[str]]:
    """Make an owner, an editor and a viewer; returns the headers of the editor's program, and cookies of the two."""
    from evalflow.addons.studio.store import people as stored
    from evalflow.addons.studio.web.security.sign_in import COOKIE
    from evalflow.addons.studio.work import connections, people, projects
    from evalflow.addons.studio.work.connections import ConnectionDraft
    from evalflow.addons.studio.work.sessions import create_token, identity_of, start_session
    from evalflow.addons.studio.work.space import open_workspace

    os.chdir(work)
    space = open_workspace(url)
    connections.create_connection(space, "allowed", ConnectionDraft(allowed, networks=["127.0.0.0/8"]))
    people.add_user(space, "olga", is_owner=True)
    keys: list[str] = []
    for name in ("editor", "viewer"):
        people.add_user(space, name)
        projects.set_role(space, name, name)
        user = space.read(stored.user, name)
        assert user
        keys.append(start_session(space, user, "10.0.0.1", "a browser", "passkey"))
    own = replace(space, identify=identity_of(space, "session", keys[0], "10.0.0.1"))
    _, token = create_token(own, "kills", "editor", 1)
    space.close()
    known = {"Authorization": f"Bearer {token}", "Host": NAME}
    return {**known, "X-Forwarded-For": "10.0.0.1", "X-Forwarded-Proto": "https"}, [f"{COOKIE}={key}" for key in keys]


class Labeller(threading.Thread):
    """A person who labels one answer after the other, and remembers what the server has acknowledged."""

    def __init__(self, served: Served) -> None:
        super().__init__(daemon=True)
        self._served, self._is_over = served, threading.Event()
        self.sent: dict[int, int] = {}

    def run(self) -> None:
        while not self._is_over.is_set():
            try:
                item = self._served.ask("POST", "/reviews/look/next")["item"]
                if item is None:
                    return
                value = 1 + item["item"] % 5
                self._served.ask("POST", f"/reviews/look/items/{item['item']}/submit", {"values": {METRIC: value}})
                self.sent[item["item"]] = value
            except (OSError, http.client.HTTPException):
                pass  # the server was killed; it may or may not have saved the label
            self._is_over.wait(0.05)

    def stop(self) -> None:
        self._is_over.set()
        self.join()


METRIC = "good"


class Runs:
    """Runs of one server, killed until each ends."""

    def __init__(self, work: Path, place: Deployment, chance: random.Random) -> None:
        self._chance = chance
        self._asked: list[tuple[float, str]] = []
        self._endpoint = Endpoint(self._reply)
        self._work, self._place = work, place
        self.rows: Counter[str] = Counter()

    def _reply(self, request: Request) -> Any:
        self._asked.append((time.monotonic(), f"{request.schema is None} {request.text}"))
        return auto(values={"reason": "so", "score": 4, "text": "It is so."}).after(LATENCY_S)

    def measure(self, kills: int) -> None:
        with self._endpoint:
            served = self._served = Served(self._work, self._place, self._endpoint.url)
            config = {"kind": "openai", "model": "m", "base_url": self._endpoint.url, "api_key_env": None}
            served.ask("POST", "/bots", {"name": "helper", "config": {**config, "concurrency": {"start": 4, "max": 4}}})
            items = [{"name": METRIC, "definition": GRADE}]
            served.ask("PUT", "/bots/helper/metrics", {"items": items}, If_Match='""')
            served.ask("POST", "/datasets", {"name": "mine"})
            served.ask("POST", "/datasets/mine/cases", {"items": [{"question": f"What is {n}?"} for n in range(CASES)]})
            self._cycle(kills=False)
            labeller = self._labeller()
            while self.rows["kills"] < kills:
                self._cycle()
            labeller.stop()
            self._compare(labeller.sent)
            served.end()

    def _labeller(self) -> Labeller:
        first = self._served.ask("GET", "/runs")["items"][0]["run_id"]
        person = "editor" if self._place.is_public else "local"
        body = {"name": "look", "run": first, "metrics": [METRIC], "size": CASES, "people": [person]}
        self._served.ask("POST", "/reviews", body)
        labeller = Labeller(self._served)
        labeller.start()
        return labeller

    def _compare(self, sent: dict[int, int]) -> None:
        """Whether each label that was acknowledged is there."""
        lines = self._served.ask("GET", "/reviews/look/labels").splitlines()
        self.rows["labels acknowledged"] = len(sent)
        self.rows["labels there"] = len(lines)
        if len(lines) < len(sent):
            self.rows["WRONG: labels lost"] = len(sent) - len(lines)

    def _cycle(self, *, kills: bool = True) -> None:
        """One run, killed until it ends."""
        served = self._served
        self._asked.clear()
        asked = {"bot": "helper", "datasets": ["mine"], "metrics": [METRIC], "options": {"cache": {"mode": "off"}}}
        run, recent = "", 0
        while True:
            early = self._chance.random() < 0.3
            until = time.monotonic() + (self._chance.uniform(0.0, 4.0) if early else 60.0)
            calls = len(self._asked) + (10**6 if early else self._chance.randrange(1, CASES))
            what = self._chance.choice(("server", "worker", "run", "server and worker"))
            state = "queued"
            try:
                if not run:
                    key = {"Idempotency_Key": f"cycle {self.rows['cycles']}"}
                    run = served.ask("POST", "/runs", asked, **key)["run_id"]
                while not kills or (time.monotonic() < until and len(self._asked) < calls):
                    state = served.ask("GET", f"/runs/{run}")["state"]
                    if state not in ("queued", "running"):
                        break
                    time.sleep(0.05)
            except (OSError, http.client.HTTPException) as error:
                raise RuntimeError(f"the server is away: {error}") from error
            if state not in ("queued", "running"):
                break
            recent += self._kill(what, run)
        self.rows["cycles"] += 1
        self._expect(run, recent, state)

    def _kill(self, what: str, run: str) -> int:
        """Kill it, start it again where nobody else does, and return the calls of the last moments."""
        served, died_at = self._served, time.monotonic()
        if what == "run":
            for proc in Path("/proc").glob("[0-9]*"):
                try:
                    words = (proc / "cmdline").read_bytes().decode().split("\0")
                except (OSError, UnicodeDecodeError):
                    continue
                if "resume" in words and any(run in word for word in words):
                    os.kill(int(proc.name), signal.SIGKILL)
        else:
            pids = served.children() if "worker" in what else []
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        if "server" in what:
            served.kill()
            served.start()
        self.rows["kills"] += 1
        self.rows[f"kills of {what}"] += 1
        if self._place.is_public:
            statuses = served.rights()
            self.rows["sessions as before" if statuses == [409, 403] else f"WRONG: sessions {statuses}"] += 1
        return sum(at > died_at - RECENT_S for at, _ in self._asked if at <= died_at + LATENCY_S)

    def _expect(self, run: str, recent: int, state: str) -> None:
        served = self._served
        scores = served.ask("GET", f"/runs/{run}/scores?limit=500")["items"]
        done = served.ask("GET", f"/runs/{run}")
        cases = Counter(one["case_id"] for one in scores)
        is_whole = (
            len(cases) == CASES and set(cases.values()) == {1} and all(one["status"] == "scored" for one in scores)
        )
        twice = len(self._asked) - len({text for _, text in self._asked})
        self.rows["runs done and whole"] += state == "done" and is_whole and done["exit_code"] == 0
        if state == "done" and not is_whole:
            self.rows["WRONG: done, not whole"] += 1
        elif state != "done":
            self.rows[f"ended as {state}: {done['message'][:200]}"] += 1
        self.rows["calls"] += len(self._asked)
        self.rows["calls of the last moments"] += recent
        self.rows["calls paid twice"] += twice
        if twice > recent:
            self.rows["WRONG: more paid twice"] += 1


def runs(work: Path, place: Deployment, kills: int, chance: random.Random) -> Counter[str]:
    """Runs of a server, which are killed while somebody labels."""
    found = Runs(work, place, chance)
    found.measure(kills)
    return found.rows


def evalflow(work: Path, *words: str) -> subprocess.Popen[bytes]:
    """A command, whose output goes to a file."""
    with (work / "output.txt").open("ab") as output:
        return subprocess.Popen([sys.executable, "-m", "evalflow", *words], cwd=work, stdout=output, stderr=output)


def killed(process: subprocess.Popen[bytes], after_s: float) -> bool:
    """Kill a process after a while; whether it still ran."""
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True
    return False


def seconds(work: Path, *words: str) -> float:
    """How long a command takes that is left alone."""
    begun = time.monotonic()
    if evalflow(work, *words).wait():
        raise RuntimeError((work / "output.txt").read_text())
    return time.monotonic() - begun


def fill(work: Path) -> None:
    """A workspace with 1,000 cases and 3 MB of files of runs."""
    served = Served(work, Deployment())
    try:
        served.ask("POST", "/datasets", {"name": "mine"})
        for start in range(0, STORED, 500):
            items = [
                {"question": f"What is {n}? {random.Random(n).randbytes(400).hex()}"} for n in range(start, start + 500)
            ]
            served.ask("POST", "/datasets/mine/cases", {"items": items})
    finally:
        served.end()
    for number in range(FOLDERS):
        runs = work / "outputs" / "runs" / f"r{number}"
        runs.mkdir(parents=True)
        (runs / "scores.jsonl").write_bytes(random.Random(number).randbytes(100_000))


def backups(work: Path, _: Deployment, kills: int, chance: random.Random) -> Counter[str]:
    """Backups that are killed."""
    rows: Counter[str] = Counter()
    fill(work)
    out = work / "out"
    out.mkdir()
    whole_s = seconds(work, "backup", str(out / "first.tar.gz"))
    with tarfile.open(out / "first.tar.gz") as archive:
        names = sorted(archive.getnames())
    while rows["kills"] < kills:
        file = out / "next.tar.gz"
        was_killed = killed(evalflow(work, "backup", str(file)), chance.uniform(0.3, 1.05) * whole_s)
        rows["kills" if was_killed else "ended before"] += 1
        if file.exists():
            with tarfile.open(file) as archive:
                rows["whole" if sorted(archive.getnames()) == names else "WRONG: not whole"] += 1
            file.unlink()
    seconds(work, "backup", str(out / "last.tar.gz"))
    left = sorted(one.name for one in out.iterdir() if one.name not in ("first.tar.gz", "last.tar.gz"))
    rows["left behind after the next backup"] += len(left)
    return rows


def restores(work: Path, _: Deployment, kills: int, chance: random.Random) -> Counter[str]:
    """Restores that are killed."""
    rows: Counter[str] = Counter()
    before = work / "before"
    before.mkdir()
    fill(before)
    seconds(before, "backup", str(work / "backup.tar.gz"))
    after = work / "after"
    after.mkdir()
    whole_s = seconds(after, "restore", str(work / "backup.tar.gz"))
    while rows["kills"] < kills:
        shutil.rmtree(after)
        after.mkdir()
        was_killed = killed(
            evalflow(after, "restore", str(work / "backup.tar.gz")), chance.uniform(0.3, 1.05) * whole_s
        )
        rows["kills" if was_killed else "ended before"] += 1
        files = sorted(one.name for one in after.iterdir() if one.name not in ("output.txt", "server.txt"))
        if not files:
            rows["nothing there yet"] += 1
            continue
        try:
            served = Served(after, Deployment())
        except RuntimeError:
            rows["refused to start"] += 1
            continue
        try:
            found = served.ask("GET", "/datasets")["items"]
            cases = next((one["cases"] for one in found if one["name"] == "mine"), 0)
            folders = len(list((after / "outputs").glob("runs/*/scores.jsonl")))
            rows[
                "whole"
                if (cases, folders) == (STORED, FOLDERS)
                else f"WRONG: served {cases} cases, {folders} runs, {files}"
            ] += 1
        finally:
            served.end()
        again = evalflow(after, "restore", str(work / "backup.tar.gz")).wait()
        rows[f"exit code {again} of the next restore"] += 1
    return rows


def imports(work: Path, place: Deployment, kills: int, chance: random.Random) -> Counter[str]:
    """Uploads of cases to a server that is killed."""
    rows: Counter[str] = Counter()
    served = Served(work, place)
    lines = "".join(json.dumps({"question": f"What is {n}? " + "x" * 400}) + "\n" for n in range(IMPORTED)).encode()

    def upload(name: str) -> None:
        with suppress(OSError, http.client.HTTPException):
            served.ask(
                "POST", f"/datasets/{name}/cases/upload?format=jsonl", lines, Content_Type="application/octet-stream"
            )

    served.ask("POST", "/datasets", {"name": "first"})
    begun = time.monotonic()
    upload("first")
    whole_s = time.monotonic() - begun
    while rows["kills"] < kills:
        name = f"d{rows['kills']}"
        served.ask("POST", "/datasets", {"name": name})
        uploading = threading.Thread(target=upload, args=(name,))
        uploading.start()
        time.sleep(chance.uniform(0.0, 1.2) * whole_s)
        served.kill()
        uploading.join()
        served.start()
        rows["kills"] += 1
        cases = served.ask("GET", f"/datasets/{name}")["cases"]
        rows["all" if cases == IMPORTED else "none" if cases == 0 else f"WRONG: {cases} cases"] += 1
    served.end()
    return rows


def main() -> int:
    """Kill, look, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=list(KINDS), metavar="WHAT")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--public", action="store_true")
    parser.add_argument("--database-url", default=None)
    arguments = parser.parse_args()
    print(f"{machine()}; {arguments.kills} kills of each, seed {arguments.seed}\n")
    wrong, place = 0, Deployment(arguments.database_url, arguments.public)
    for what in arguments.what:
        with folder() as work:
            rows = KINDS[what](work, place, arguments.kills, random.Random(arguments.seed))
        print_table((what, ""), list(rows.items()))
        wrong += sum(name.startswith("WRONG") for name in rows)
    return int(wrong > 0)


KINDS: dict[str, Callable[[Path, Deployment, int, random.Random], Counter[str]]] = {
    **{"runs": runs, "backup": backups, "restore": restores, "import": imports},
}

if __name__ == "__main__":
    sys.exit(main())
