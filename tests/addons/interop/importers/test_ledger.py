"""What an import does not take over is listed, or it is a bug."""

from __future__ import annotations

import pytest

from evalflow.addons.interop.importers.ledger import Ledger


def test_what_is_neither_taken_nor_listed_is_a_bug() -> None:
    ledger = Ledger(["cases"])
    ledger.found("cases", 3)
    ledger.took("cases", 2)
    with pytest.raises(RuntimeError, match="of 3 cases 2 were taken and 0 listed"):
        ledger.expect_balanced()
    ledger.left("cases", "case c", "f:3", "it has no input")
    ledger.expect_balanced()
    assert ledger.counts() == {"cases": (3, 2, 1)}


def test_a_fault_of_every_line_is_one_entry() -> None:
    ledger = Ledger()
    for line in range(100_000):
        ledger.leave("cases", "case", f"f:{line}", "it has no input")
    [entry] = ledger.left_out
    assert (entry.count, entry.where) == (100_000, "f:0, f:1, f:2, f:3, f:4 and 99,995 more")
    ledger.expect_balanced()
