"""The command `export`: send a finished run to another tool."""

from __future__ import annotations

import argparse
from contextlib import closing

from pydantic import ValidationError
from rich.console import Console

from evalflow.app.core.outgoing import facts_of, receiver_of, send_rest
from evalflow.app.core.saved import SavedRun, find_scored
from evalflow.app.core.screen import print_export
from evalflow.calls.connections import Connections
from evalflow.config.schema import OtelConfig
from evalflow.errors import InfrastructureError, Problem, UserError, command
from evalflow.exporters.otel import DeliveryLog
from evalflow.records.manifest import ExportFacts

DESTINATIONS = ("otel",)


def export(options: argparse.Namespace, console: Console) -> int:
    """Send the scores of a run that a destination does not have yet, and count them in run.json.

    UserError if nothing could be sent at all, InfrastructureError if some could not.
    """
    run = find_scored(options.run, "export", options.destination)
    facts = _to_otel(run, options)
    run.folder.write_manifest(run.folder.read_manifest().exported(facts))
    print_export(console, facts, run.folder)
    if facts.unsent:
        raise InfrastructureError(f"{facts.unsent:,} scores were not sent", f"check {facts.where}")
    return 0


def _to_otel(run: SavedRun, options: argparse.Namespace) -> ExportFacts:
    config = run.rules.settings.run.otel
    try:
        endpoint = OtelConfig(endpoint=options.to or config.endpoint).endpoint
    except ValidationError as error:
        what = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UserError(Problem(f"{options.to!r} is no address of a receiver", "--to", what)) from None
    if endpoint is None:
        hint = command("export", "otel", str(options.run or "outputs/latest"), "--to", "http://127.0.0.1:4318")
        raise UserError(Problem("the run names no receiver", "otel.endpoint", f"name one: {hint}"))
    receiver = receiver_of(endpoint, Connections.of_process(), "--to")
    log = DeliveryLog(run.folder.path, run.folder.delivered, receiver.address, again=options.again)
    with closing(log):
        why = send_rest(run, receiver, log, options.text or config.text)
        return facts_of(receiver, log, run, why)
