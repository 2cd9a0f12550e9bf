"""Whatever runs, crashes and is tried at the same time: leases keep a project within its monthly budget."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, delete, select, update

from evalflow.addons.studio.store import runs, server_tables, spending, tables
from evalflow.addons.studio.work import leases
from evalflow.addons.studio.work.leases import Need
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.spending import run_spending
from evalflow.calls.budget import NOTE, UNITS, Amount
from evalflow.errors import UserError

LIMITS = {"usd": 1.0, "requests": 20, "tokens": 2000}


def budget(space: Workspace, **limits: Any) -> None:
    with space.database.writing() as connection:
        connection.execute(update(tables.projects).values(budget=limits))


def queue(space: Workspace, connection: Connection, name: str, need: Need | None) -> int:
    values: dict[str, Any] = {"title": "", "bot": "b", "state": "queued", "origin": "workspace", "composition": {}}
    values |= {"project_id": space.project_id, "run_id": name, "folder": str(space.root / name), "arguments": []}
    (space.root / name).mkdir(exist_ok=True)
    (space.root / name / NOTE).unlink(missing_ok=True)  # of an example before, whose lease had the same id
    return runs.create(connection, {**values, "need": need and asdict(need)})


def claim(space: Workspace, worker: str = "w") -> str:
    """What a worker does with the next run: the run's name, "refused", or "" if none can start."""
    with space.database.writing() as connection:
        found = leases.next_run(connection)
        if found is None:
            return ""
        if found.problem:
            runs.refuse(connection, found.run.id, 4, leases.message(found.problem))
            return "refused"
        assert runs.claim(connection, found.run.id, worker, 1.0)
        found.take(connection)
    return found.run.run_id


def totals(space: Workspace, month: str) -> Amount:
    with space.database.reading() as connection:
        spent, leased = spending.totals(connection, space.project_id, month)
    return spent + leased


def note(folder: Path, lease: int, used: Amount, wanted: Amount | None = None) -> None:
    found = {"lease": lease, "used": asdict(used), "wanted": wanted and asdict(wanted)}
    (folder / NOTE).write_text(json.dumps(found), encoding="utf-8")


@dataclass
class Studio:
    """Workers, the processes of runs, and people who try things, with what they have really spent."""

    space: Workspace
    month: str
    used: dict[str, Amount] = field(default_factory=dict[str, Amount])
    booked: dict[str, Amount] = field(default_factory=lambda: defaultdict(Amount))
    count: int = 0

    def queue(self, size: int) -> None:
        self.count += 1
        need = Need(Amount(size, 100 * size, size / 20)) if size % 4 else None
        with self.space.database.writing() as connection:
            queue(self.space, connection, f"r{self.count}", need)

    def claim(self, _: int) -> None:
        claim(self.space)

    def spend(self, size: int) -> None:
        """A process sends a call if its lease covers it, and else says what it wanted, and ends."""
        row, lease = self.working(size)
        if row is None:
            return
        used, call = self.used.get(f"lease {lease.id}", Amount()), Amount(1, 10 * size, size / 100)
        folder = row.path
        after = used + call
        if all(getattr(after, unit) <= getattr(lease.amount, unit) for unit in UNITS):
            self.used[f"lease {lease.id}"] = after
            self.booked[self.month_of(lease.id)] += call
            note(folder, lease.id, after)
            return
        note(folder, lease.id, used, call)
        with self.space.database.writing(in_turn=False) as connection:
            found = leases.settle(connection, row, is_alive=False)
            assert found
            assert found.wanted == call
            values = leases.after_lease(connection, row, call)
            runs.note(connection, row.run_id, "w", **{"state": "failed", **values})

    def end(self, size: int) -> None:
        row, _ = self.working(size)
        if row is not None:
            with self.space.database.writing(in_turn=False) as connection:
                leases.settle(connection, row, is_alive=False)
                runs.note(connection, row.run_id, "w", state="done")

    def crash(self, size: int) -> None:
        """A process or its worker is lost: whoever takes the run over settles and queues it again."""
        row, _ = self.working(size)
        if row is not None:
            with self.space.database.writing(in_turn=False) as connection:
                assert runs.release(connection, row.run_id, "w")
                leases.settle(connection, row, is_alive=False)

    def attempt(self, size: int) -> None:
        try:
            with leases.trial_budget(self.space, "trial") as trial:
                trial.sent = Amount(min(size, trial.lease.requests or 0) if trial.lease else 0)
        except UserError:
            return
        self.booked[self.month] += trial.sent

    def turn(self, size: int) -> None:
        if size == 1:
            self.month = leases.renewal(self.month).isoformat()[:7]

    def month_of(self, lease: int) -> str:
        with self.space.database.reading() as connection:
            table = server_tables.spending
            return connection.scalars(select(table.c.month).where(table.c.id == lease)).one()

    def working(self, size: int) -> tuple[Any, Any]:
        with self.space.database.reading() as connection:
            rows = runs.running(connection)
            row = rows[size % len(rows)] if rows else None
            return row, spending.open_lease(connection, row.id) if row else None


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["queue", "claim", "claim", "spend", "spend", "spend", "end", "crash", "attempt", "turn"]),
            st.integers(1, 12),
        ),
        max_size=40,
    )
)
def test_what_is_spent_and_leased_never_exceeds_the_budget(space: Workspace, operations: list[tuple[str, int]]) -> None:
    budget(space, **LIMITS)
    with space.database.writing() as connection:
        connection.execute(delete(server_tables.spending))
        connection.execute(delete(tables.runs))
    studio = Studio(space, "2026-11")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leases, "this_month", lambda: studio.month)
        for name, size in operations:
            getattr(studio, name)(size)
            for month in {studio.month, *studio.booked}:
                both = totals(space, month)
                assert all(getattr(both, unit) <= LIMITS[unit] + 1e-9 for unit in UNITS)
        while studio.working(0)[0]:
            studio.end(0)
    for month, booked in studio.booked.items():
        both = totals(space, month)
        assert (both.requests, both.tokens) == (booked.requests, booked.tokens)
        assert both.usd == pytest.approx(booked.usd)


def test_workers_that_claim_at_once_share_what_is_left(space: Workspace) -> None:
    """Ten runs that need 3 requests of 20: seven threads begin seven, one of them with 2; the others wait."""
    budget(space, requests=20)
    for number in range(10):
        with space.database.writing() as connection:
            queue(space, connection, f"r{number}", Need(Amount(3)))
    claimed: list[str] = []

    def work() -> None:
        for _ in range(3):
            claimed.append(claim(space))

    threads = [threading.Thread(target=work) for _ in range(7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(filter(None, claimed)) == [f"r{number}" for number in range(7)]
    assert totals(space, leases.this_month()).requests == 20
    assert run_spending(space, "r6").leased == {"usd": None, "requests": 2, "tokens": None}
    assert "20 requests are held by what is running" in run_spending(space, "r7").waits


@pytest.mark.parametrize(
    ("spent", "leased", "need", "offered"),
    [
        (0, 0, Need(Amount(5)), (5, "fits")),
        (0, 0, Need(), (20, "fits")),
        (16, 0, Need(Amount(5)), (4, "fits")),
        (0, 20, Need(Amount(5)), (0, "waits")),
        (20, 0, Need(Amount(5)), (0, "refused")),
        (10, 10, Need(Amount(5), Amount(8)), (0, "waits")),
        (15, 0, Need(Amount(5), Amount(8)), (5, "refused")),
        (15, 2, Need(Amount(5), Amount(8)), (3, "refused")),
        (20, 0, Need(Amount()), (0, "fits")),
        (25, 0, Need(Amount(1)), (0, "refused")),
    ],
)
def test_an_offer_is_what_is_needed_or_what_is_left(
    space: Workspace, spent: int, leased: int, need: Need, offered: tuple[int, str]
) -> None:
    budget(space, requests=20)
    with space.database.writing() as connection:
        month, run = leases.this_month(), queue(space, connection, "r", None)
        for amount, settled in ((spent, True), (leased, False)):
            lease = spending.take(connection, space.project_id, month, "r", Amount(amount), run)
            if settled:
                spending.settle(connection, lease, None)
        found = leases.offer(leases.read_budget(connection, space.project_id), need)
    word = "fits" if not found.short else "waits" if found.waits else "refused"
    assert (found.limits["requests"], word) == offered
    assert (found.limits["usd"], found.limits["tokens"]) == (None, None)


def test_a_trial_that_was_lost_counts_as_spent(space: Workspace) -> None:
    budget(space, requests=20)
    with space.database.writing() as connection:
        spending.take(connection, space.project_id, leases.this_month(), "trial", Amount(20))
        assert leases.offer(leases.read_budget(connection, space.project_id), Need(Amount(1))).waits
        connection.execute(update(server_tables.spending).values(at="2020-01-01T00:00:00.000+00:00"))
        found = leases.offer(leases.read_budget(connection, space.project_id), Need(Amount(1)))
    assert (found.short, found.waits) == (["requests"], False)


@pytest.mark.parametrize(
    ("month", "day"), [("2026-11", date(2026, 12, 1)), ("2026-12", date(2027, 1, 1)), ("2028-01", date(2028, 2, 1))]
)
def test_a_budget_is_renewed_on_the_first_of_the_next_month(month: str, day: date) -> None:
    assert leases.renewal(month) == day
