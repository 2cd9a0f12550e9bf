"""What tests of importers share: how they count."""

from __future__ import annotations

from evalflow.addons.interop.importers.files import ImportedConfig


def counts(found: ImportedConfig) -> dict[str, tuple[int, int, int]]:
    """Found, taken and left by part, without the parts of a case of which nothing was left."""
    known = found.ledger.counts()
    whole = ("columns", "messages")
    return {part: numbers for part, numbers in known.items() if part not in whole or numbers[2]}
