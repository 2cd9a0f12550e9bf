"""The spending of projects by month. A row is a lease until it is settled, and then the amount spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select, update

from evalflow.addons.studio.store.rows import add, now
from evalflow.addons.studio.store.schema import NAME
from evalflow.addons.studio.store.server_tables import spending
from evalflow.calls.budget import UNITS, Amount

LOST = timedelta(hours=1)
"""An older lease without a run counts as spent: the process that took it ended without settling it."""


def totals(connection: Connection, project: int, month: str) -> tuple[Amount, Amount]:
    """The amount that a project has spent in a month, and the amount that its open leases may still spend."""
    its = (spending.c.project_id == project) & (spending.c.month == month)
    return _sum(connection, its & ~_is_open()), _sum(connection, its & _is_open())


def of_run(connection: Connection, run: int) -> Amount:
    """The amount that a run has spent in all months, without its open lease."""
    return _sum(connection, (spending.c.run == run) & spending.c.is_settled)


def take(connection: Connection, project: int, month: str, source: str, amount: Amount, run: int | None = None) -> int:
    """Open a lease; returns its id. `source` names what it is for."""
    values: dict[str, Any] = {unit: getattr(amount, unit) for unit in UNITS}
    values |= {"project_id": project, "month": month, "source": source[:NAME], "run": run}
    return add(connection, spending, {**values, "is_settled": False, "at": now()})


@dataclass(frozen=True, slots=True)
class OpenLease:
    """The amount that the process of a run may spend."""

    id: int
    amount: Amount


def open_lease(connection: Connection, run: int) -> OpenLease | None:
    """The open lease of a run."""
    columns = spending.c.id, *(spending.c[unit] for unit in UNITS)
    row = connection.execute(select(*columns).where(spending.c.run == run, ~spending.c.is_settled)).first()
    return None if row is None else OpenLease(row[0], _amount(row[1:]))


def settle(connection: Connection, lease: int, spent: Amount | None) -> None:
    """Settle a lease with the amount spent; None: unknown, so all of it. A settled lease is not changed."""
    values = {} if spent is None else {unit: getattr(spent, unit) for unit in UNITS}
    its = (spending.c.id == lease) & ~spending.c.is_settled
    connection.execute(update(spending).where(its).values(**values, is_settled=True))


def _is_open() -> ColumnElement[bool]:
    return ~spending.c.is_settled & (spending.c.run.is_not(None) | (spending.c.at > now(-LOST)))


def _sum(connection: Connection, which: ColumnElement[bool]) -> Amount:
    sums = [func.coalesce(func.sum(spending.c[unit]), 0).label(unit) for unit in UNITS]
    return _amount(connection.execute(select(*sums).where(which)).one())


def _amount(units: Sequence[Any]) -> Amount:  # in the order of UNITS
    usd, requests, tokens = units
    return Amount(int(requests), int(tokens), float(usd))
