"""The command `export`: send a finished run to another tool."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console

from evalflow.addons.interop.exporters.finished import FinishedRun
from evalflow.addons.interop.exporters.mlflow import send_to_mlflow
from evalflow.addons.interop.exporters.otel import DeliveryLog
from evalflow.addons.interop.exporters.weave import send_to_weave
from evalflow.addons.interop.outgoing import facts_of, receiver_of, send_rest
from evalflow.app.core.cases import answers_of
from evalflow.app.core.saved import SavedRun, find_folder, find_scored
from evalflow.app.core.screen import print_export
from evalflow.app.core.stored_runs import copy_folder
from evalflow.calls.connections import Connections
from evalflow.config.surroundings import OtelConfig
from evalflow.engine.folder import RunFolder
from evalflow.errors import InfrastructureError, Problem, UserError, command
from evalflow.paths import shown
from evalflow.records.manifest import ExportFacts
from evalflow.report.results_csv import AnsweredCase, rows

DESTINATIONS = ("otel", "mlflow", "weave", "storage")
PROJECT = "evalflow"


def export(options: argparse.Namespace, console: Console) -> int:
    """Send the scores of a run that a destination does not have yet, and count them in run.json.

    UserError if nothing could be sent at all, InfrastructureError if some could not.
    """
    if options.destination == "storage":
        return _to_storage(options, console)
    run = find_scored(options.run, "export", options.destination)
    facts = _to_otel(run, options) if options.destination == "otel" else _to_tracker(run, options)
    run.folder.write_manifest(run.folder.read_manifest().exported(facts))
    print_export(console, facts, run.folder)
    if facts.unsent:
        raise InfrastructureError(f"{facts.unsent:,} scores were not sent", f"check {facts.where}")
    return 0


def expect_receiver(options: argparse.Namespace) -> None:
    """UserError if there is no run to export, or no address to send it to."""
    run = find_scored(options.run, "export", options.destination)
    if options.destination == "storage":
        _storage_address(options, run.folder.path)
    if options.destination == "otel":
        _endpoint(run, options)


def _to_storage(options: argparse.Namespace, console: Console) -> int:
    folder = find_folder(options.run)
    to = _storage_address(options, folder)
    print_export(console, copy_folder(folder, to, again=options.again), RunFolder(folder))
    return 0


def _storage_address(options: argparse.Namespace, folder: Path) -> str:
    if options.to is None:
        hint = f"give the address: {command('export', 'storage', shown(folder), '--to', 's3://BUCKET/FOLDER')}"
        raise UserError(Problem("a copy needs an address", "--to", hint))
    return options.to


def _to_otel(run: SavedRun, options: argparse.Namespace) -> ExportFacts:
    receiver = receiver_of(_endpoint(run, options), Connections.of_process(), "--to")
    log = DeliveryLog(run.folder.path, run.folder.delivered, receiver.address, again=options.again)
    with closing(log):
        why = send_rest(run, receiver, log, options.text or run.rules.settings.run.otel.text)
        return facts_of(receiver, log, run, why)


def _endpoint(run: SavedRun, options: argparse.Namespace) -> str:
    config = run.rules.settings.run.otel
    try:
        endpoint = OtelConfig(endpoint=options.to or config.endpoint).endpoint
    except ValidationError as error:
        what = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UserError(Problem(f"{options.to!r} is not an address of a receiver", "--to", what)) from None
    if endpoint is None:
        hint = command("export", "otel", str(options.run or "outputs/latest"), "--to", "http://127.0.0.1:4318")
        raise UserError(Problem("the run names no receiver", "otel.endpoint", f"name one: {hint}"))
    return endpoint


def _to_tracker(run: SavedRun, options: argparse.Namespace) -> ExportFacts:
    """Send the run to a tracker of experiments, whose own client does so."""
    if Connections.of_process() is not None:
        what = f"the client of {options.destination} cannot be restricted to this server's connections"
        raise UserError(Problem(what, f"export {options.destination}", "export the run on another machine"))
    finished, project = _finished(run, options), options.project or PROJECT
    if options.destination == "mlflow":
        return send_to_mlflow(finished, options.to, project, again=options.again)

    def begun(facts: ExportFacts) -> None:
        run.folder.write_manifest(run.manifest.exported(facts))

    return send_to_weave(finished, options.to, project, begun, again=options.again)


def _finished(run: SavedRun, options: argparse.Namespace) -> FinishedRun:
    def answered() -> Iterator[AnsweredCase]:
        with answers_of(run.folder, run.rules.settings.run) as answers:
            yield from rows(run.cases(), answers, run.scores())

    return FinishedRun(run.manifest, run.folder, options.text or "all", answered)
