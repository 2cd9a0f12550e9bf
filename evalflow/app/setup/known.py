"""Answers that a run need not ask for: those of its own earlier part, and of other runs of its sweep."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from evalflow import datasets
from evalflow.app.setup.assemble import Parts
from evalflow.app.setup.order import Order
from evalflow.protocols import Target
from evalflow.run.answers import AnswerBook, RememberingTarget
from evalflow.run.folder import RunFolder


def remembering(order: Order, parts: Parts, known: ExitStack) -> Target:
    """The target, that is not asked again for what another run of the same sweep has asked it already."""
    if parts.settings.run.generate is False or not order.siblings:
        return parts.target
    book = known.enter_context(AnswerBook())
    for path in order.siblings:
        sibling = RunFolder(path)
        manifest = sibling.read_manifest()
        if manifest["target"]["identity"] == parts.target.identity:
            book.add(sibling.answers, _same_data(manifest, parts))
    return RememberingTarget(parts.target, book)


def answered(order: Order, parts: Parts, known: ExitStack) -> AnswerBook | None:
    """The answers that an earlier part of this run has got; None where there can be none."""
    if parts.settings.run.generate is False or not order.resumed:
        return None
    book = known.enter_context(AnswerBook())
    book.add(RunFolder(order.folder).answers, parts.datasets)
    return book


def _same_data(manifest: dict[str, Any], parts: Parts) -> list[str]:
    """The datasets that another run has read from the same data in the same way."""
    settings = parts.settings
    mine = settings.composed.storable["dataset"]
    keys = {name: settings.keys["dataset", name] for name in parts.datasets}
    return [
        name
        for name, config in parts.datasets.items()
        if manifest["config"]["dataset"].get(keys[name]) == mine[keys[name]]
        and manifest["datasets"][name]["sha256"] == datasets.digest(config)
    ]
