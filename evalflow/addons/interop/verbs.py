"""The commands for other tools' files and programs."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from evalflow.cli.manual import DONE_CODES, RUN_CODES, Manual
from evalflow.cli.parsing import Verb, VerbParser, Work, config_dir_of, console
from evalflow.errors import EvalflowError, Meant, Problem, UserError, command, program

_TIAMAT = Manual(
    "Run a Tiamat test file, unchanged: each of its datasets with each of its metrics.",
    f"By default the target's own model is the judge; overrides change what the file says.\n\n{RUN_CODES}",
    (("tiamat TEST.json", "all pairs in one run"), ("tiamat TEST.json limit=5", "of each dataset five cases")),
    "tiamat.md",
    overview="  tiamat TEST.json [OVERRIDES]      a Tiamat test file, unchanged: all pairs in one run",
)
_IMPORT = Manual(
    "Write what another tool's files declare into ./conf, ./data and ./prompts, to run and to change.",
    "Writes conf/, data/ and prompts/, and never over a file that is there; then prints what was taken, and each "
    f"thing that was not, with its place and what to do.\n\n{DONE_CODES}",
    (
        ("import tiamat TEST.json", "a Tiamat test as YAML"),
        ("import langfuse traces.csv --name desk", "cases, and old scores beside new ones"),
        ("import ragas second.csv --dataset first", "another system's results of the cases of an import"),
        ("import traces traces.jsonl --name live", "a case for each trace of OTLP JSON"),
    ),
    "import.md",
    overview=(
        "  import FORMAT PATH [--name NAME]  other tools' files as conf/, data/ and prompts/ that run\n"
        "                                    at once: promptfoo, openai-evals, deepeval, ragas,\n"
        "                                    inspect, langfuse, langsmith, braintrust, phoenix,\n"
        "                                    azure-ai, mlflow, giskard, lm-eval, traces\n"
        "  import tiamat TEST.json           the same as YAML in ./conf, to run and to change\n"
        "  import govuk CONFIG.yaml          a config of GOV.UK Chat Evaluation as YAML in ./conf"
    ),
)
_EXPORT = Manual(
    "Send a finished run to another tool; scores that it has already are not sent again.",
    "Sends scores, and notes in the run's folder which ones were accepted, so that nothing is sent twice. Keys "
    "come from environment variables.\n\n"
    "exit codes: 0 done, 2 a mistake (nothing was sent), 5 some scores could not be sent",
    (
        ("export otel --to http://127.0.0.1:4318", "the latest run, as OpenTelemetry log records"),
        ("export storage outputs/latest --to s3://bucket/runs/first", "a copy of its folder in object storage"),
        ("export otel outputs/latest --text reasons", "with the reasons, to the receiver that the run names"),
        ("export mlflow --to http://127.0.0.1:5000", "the latest run, into the experiment evalflow"),
        ("export weave --project team/desk", "into a project of W&B Weave, by the key in WANDB_API_KEY"),
    ),
    "export.md",
    overview=(
        "  export otel [RUN] --to URL        each score as an OpenTelemetry log record; also during\n"
        "                                    a run: otel.endpoint=URL\n"
        "  export mlflow|weave [RUN] [--to URI]\n"
        "                                    params, metrics with bounds, report and feedback"
    ),
)
_MCP = Manual(
    "Serve evalflow to an assistant: tools over standard input and output (MCP).",
    f"An assistant starts this program itself; docs/assistants.md says how.\n\n{DONE_CODES}",
    (("mcp", "tools that send nothing"), ("mcp --allow-run", "and one that evaluates, within a budget")),
    "assistants.md",
    overview="  mcp [--allow-run]                 tools for an assistant (Model Context Protocol)",
)


def _tiamat(parser: VerbParser) -> Work:
    parser.passes_words = True
    parser.add_argument("test", metavar="TEST.json", help="the test file")
    parser.add_argument(
        "output", nargs="?", metavar="OUTPUT.json", help="where Tiamat's own form of results is written"
    )
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="GROUP=NAME, or KEY=VALUE")

    def work(options: Namespace) -> int:
        from evalflow.addons.interop.importing import run_tiamat

        files, overrides = _tiamat_words(options)
        return run_tiamat(files[0], overrides, console(), console(stderr=True), files[1] if len(files) > 1 else None)

    return work


def _tiamat_words(options: Namespace) -> tuple[list[str], list[str]]:
    """The files and the overrides."""
    files = [word for word in options.words if "=" not in word and not word.startswith("-")]
    overrides = [word for word in options.words if word not in files]
    config_dir, _ = config_dir_of(overrides)
    if config_dir or not 1 <= len(files) <= 2:
        hint = f"{program()} tiamat TEST.json [OUTPUT.json] [OVERRIDES]; own options stand in ./conf"
        raise UserError(Problem("tiamat takes a test file, a file for results, and overrides", "command line", hint))
    return files, overrides


def _examine_tiamat(options: Namespace) -> None:
    from evalflow.addons.interop.importing import examine_tiamat

    files, overrides = _tiamat_words(options)
    examine_tiamat(files[0], overrides)


def _import(parser: VerbParser) -> Work:
    from evalflow.addons.interop.importing import IMPORTERS, import_files

    formats = IMPORTERS.names()

    def format_of(word: str) -> str:
        if word in formats or not Path(word).exists():
            return word
        raise UserError(_without_format(word, formats))

    parser.add_word("format", formats, type=format_of)
    parser.add_argument("path", help="the tool's file; docs/import.md says which")
    parser.add_argument("--name", help="the name of what is written; that of the file without it")
    root = "files that it names are read below this folder only; its own folder without it"
    parser.add_argument("--root", metavar="FOLDER", help=root)
    same = "a dataset whose cases the file has, with another system's answers: both are then compared case by case"
    parser.add_argument("--dataset", metavar="DATASET", help=same)
    return lambda options: import_files(
        options.format, options.path, console(), options.name, options.root, options.dataset
    )


def _without_format(file: str, formats: Sequence[str]) -> Problem:
    """The problem of a file without its format: the one that its name has, or a dataset if its cases can be read."""
    what, where = "the tool that wrote the file comes first", f"import {file}"
    slug = re.sub(r"[\W_]+", "-", Path(file).name.lower())
    # Whole words: an inspection.json is not of inspect. A tool's configuration is named such as promptfooconfig.yaml.
    places = {name: re.search(rf"(?<![a-z]){re.escape(name)}(?:config)?(?![a-z])", slug) for name in formats}
    named = min(((match.start(), name) for name, match in places.items() if match), default=(0, ""))[1]
    if named:
        hint = f"write {command('import', named, file)}"
        return Problem(what, where, hint, meant=Meant(None, ("import", named, file)))
    name = re.sub(r"\W+", "_", Path(file).stem.lower(), flags=re.ASCII).strip("_") or "mine"
    plain = ("new", "dataset", name, "--path", file)
    hint = f"one of {', '.join(formats)}; for a plain table of cases: {command(*plain)}"
    return Problem(what, where, hint, meant=Meant(None, plain) if _has_cases(file) else None)


def _has_cases(file: str) -> bool:
    """Whether a file's columns are those of cases, by their names."""
    from evalflow import datasets
    from evalflow.config.schema import DatasetConfig
    from evalflow.datasets.nested import propose_mapping

    try:
        columns = datasets.examples(DatasetConfig(path=file))
    except EvalflowError:
        return False
    return bool({"question", "messages", "answer"} & {*columns, *propose_mapping(columns)})


def _examine_import(options: Namespace) -> None:
    if not Path(options.path).exists():
        raise UserError(Problem("there is no such file", options.path))


def _export(parser: VerbParser) -> Work:
    from evalflow.addons.interop.exporting import DESTINATIONS, export
    from evalflow.config.surroundings import TextToSend

    parser.add_word("destination", DESTINATIONS)
    parser.add_run()
    where = "address of the receiver (otel; default: the run's own) or of the server (default: the client's setting)"
    parser.add_argument("--to", metavar="WHERE", help=where)
    parser.add_argument(
        "--project", metavar="NAME", help="experiment of mlflow or project of weave (default: evalflow)"
    )
    texts = get_args(TextToSend)
    what = "texts to send as well: reasons (may quote answers), or all (also questions, answers, the report)"
    parser.add_argument("--text", choices=texts, metavar="|".join(texts), help=what)
    parser.add_flag("--again", "send everything once more")
    return lambda options: export(options, console())


def _examine_export(options: Namespace) -> None:
    from evalflow.addons.interop.exporting import expect_receiver

    expect_receiver(options)


def _mcp(parser: VerbParser) -> Work:
    from evalflow.addons.interop.mcp_server import run_mcp

    paid = "also offer the tool `run`, which needs a budget; without it nothing is sent and nothing written"
    parser.add_flag("--allow-run", paid)
    return lambda options: run_mcp(allow_run=options.allow_run)


TIAMAT = Verb(_TIAMAT, _tiamat, _examine_tiamat)
IMPORT = Verb(_IMPORT, _import, _examine_import)
EXPORT = Verb(_EXPORT, _export, _examine_export)
MCP = Verb(_MCP, _mcp)
