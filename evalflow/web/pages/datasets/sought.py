"""Which cases of a dataset are looked at, and the addresses that keep it from page to page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

AT_ONCE = 50
"""Cases of a page."""


@dataclass(frozen=True, slots=True)
class Sought:
    """A filter, and a place among what it finds.

    Attributes:
        tag, text: What is looked for; empty: all.
        first: How many stand before the page.
        row: The case in the store that one comes back from; None: none.
    """

    tag: str = ""
    text: str = ""
    first: int = 0
    row: int | None = None

    @property
    def wanted(self) -> dict[str, str | None]:
        """The filter as the workspace takes it."""
        return {"tag": self.tag or None, "text": self.text.strip() or None}

    def path(self, dataset: str) -> str:
        """The address of the list."""
        return _address(f"/datasets/{dataset}", {**self.wanted, "first": self.first or None, "row": self.row})

    def case(self, dataset: str, case: int) -> str:
        """The address of one of its cases."""
        return _address(f"/datasets/{dataset}/cases/{case}", self.wanted)

    def around(self, before: int, row: int | None) -> Sought:
        """The page on which a case is that has so many before it."""
        return Sought(self.tag, self.text, before // AT_ONCE * AT_ONCE, row)


def number_of(said: str) -> int:
    """A number that stands in an address, or 0."""
    return int(said) if said.isdecimal() and len(said) < 10 else 0


def _address(path: str, query: Mapping[str, object]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path
