"""What `VERB --help` says below its options: files, exit codes, examples, and the page to read."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

PROGRAM = "python -m evalflow"


@dataclass(frozen=True, slots=True)
class Manual:
    """What a verb's help says: what it does; and after the options paragraphs, examples (words and effect), a page."""

    about: str
    text: str
    examples: tuple[tuple[str, str], ...]
    page: str = ""

    def __str__(self) -> str:
        lines = [line for part in self.text.split("\n\n") for line in (*textwrap.wrap(part, WIDTH), "")]
        lines.append("examples:")
        for words, about in self.examples:
            lines += [f"  {PROGRAM} {words}", f"      {about}"]
        return "\n".join([*lines, "", f"more: docs/{self.page}"] if self.page else lines)


WIDTH = 80
_RUN_CODES = (
    "exit codes: 0 done, 1 a gate failed, 2 a mistake in configuration or data (nothing was sent), 3 inconclusive, "
    "4 the budget ran out, 5 an endpoint refuses every call, or a bug, 6 waiting for batches, 130 interrupted"
)
_DONE_CODES = "exit codes: 0 done, 2 it could not be done, and the message says why"

_OVERRIDES = (
    "Overrides are GROUP=NAME, which chooses a file of conf/, and KEY=VALUE. Brackets mean together, as in "
    "'metric=[faithfulness,relevance]'."
)

MANUALS: dict[str, Manual] = {
    "run": Manual(
        "Evaluate: answer the cases where that is wanted, score the answers, and write the reports. It is also what is "
        "done without a verb.",
        f"{_OVERRIDES} With -m, commas mean one run after another. The demo flags write the answers into a new file "
        "beside the data. Hydra's own flags work too: "
        f"--cfg job, --info defaults, --hydra-help.\n\n{_RUN_CODES}",
        (
            ("run dataset=rag metric=faithfulness", "one metric, no key needed"),
            ("run -m dataset=rag metric=faithfulness judge=a,b", "a sweep, one run for each judge"),
        ),
        "tutorial.md",
    ),
    "check": Manual(
        "Do everything short of the first request: check the configuration, the data and the prompts, and estimate.",
        f"{_OVERRIDES} Nothing is sent, and nothing written.\n\n"
        "exit codes: 0 all is well, 2 a mistake; all of them are listed",
        (
            ("check dataset=rag metric=faithfulness", "what the run would take"),
            ("check dataset=rag metric=faithfulness --json", "as one JSON document"),
        ),
        "tutorial.md",
    ),
    "tiamat": Manual(
        "Run a Tiamat test file, unchanged: each of its datasets with each of its metrics.",
        f"By default the target's own model is the judge; overrides change what the file says.\n\n{_RUN_CODES}",
        (("tiamat TEST.json", "all pairs in one run"), ("tiamat TEST.json limit=5", "of each dataset five cases")),
        "tiamat.md",
    ),
    "resume": Manual(
        "Finish a run; nothing that is finished is asked again. budget.usd=5 raises its budget, and engine=ray goes on "
        "in a cluster.",
        "Reads run.json and the journals of the folder, asks what is missing, and writes all files again.\n\n"
        + _RUN_CODES,
        (
            ("resume", "the latest run"),
            ("resume outputs/latest --retry-errors", "ask again what ended in error"),
            ("resume outputs/latest budget.usd=5", "with more to spend"),
        ),
    ),
    "cases": Manual(
        "Show cases: question, answer, score, reason and the judge's steps.",
        f"Prints to standard output; nothing is written or sent.\n\n{_DONE_CODES}",
        (
            ("cases --failed", "what did not pass in the latest run"),
            ("cases outputs/latest --metric exact_match --limit 3", "three cases, with reasons"),
            ("cases --failed --json", "as one JSON document"),
        ),
    ),
    "report": Manual(
        "Write the reports of runs or sweeps again, from what they recorded; nothing is asked.",
        "Reads the journals and writes the reports again; nothing is sent. Other thresholds are kept with the run.\n\n"
        f"{_DONE_CODES}; what changed of the run's own exit code is printed",
        (
            ("report", "the latest run"),
            ("report metric.exact_match.threshold=0.5", "with another threshold"),
        ),
    ),
    "open": Manual(
        "Show a report in the browser.",
        f"Opens report.html in the browser, or prints where it is if there is none.\n\n{_DONE_CODES}",
        (("open outputs/latest", "the latest report"),),
    ),
    "compare": Manual(
        "Hold run B against run A, case by case: better, worse, or cannot tell.",
        "Pairs the cases of both runs, tests each difference, adjusts for their number, and writes compare.html and "
        f"compare.md into the folder of B.\n\n{_DONE_CODES}",
        (
            ("compare RUN_A RUN_B", "what became better or worse"),
            ("compare RUN_A RUN_B --margin 0.05", "whether B is not worse by more than 0.05"),
            ("compare RUN_A RUN_B --json", "as one JSON document"),
        ),
        "statistics.md",
    ),
    "race": Manual(
        "Ask two configurations the same cases turn by turn, until one is shown to be better.",
        f"Both sides are runs with folders of their own; compare.html is in that of B.\n\n{_RUN_CODES}",
        (("race dataset=rag metric=exact_match generate=demo target.name=a,b", "until one is shown to be better"),),
        "statistics.md",
    ),
    "prove": Manual(
        "Compare a judge's scores with those of people on a metric's fixture, and say which faults it sees.",
        "Runs the metric over its fixture, cases with the scores that people would give; over answers that are good "
        "(people's references), and over the same answers with a fault put in: another number or name, a negation, a "
        "sentence too many or too few; and with changes that should not matter: spaces, order, paraphrase, padding. "
        "Writes proof.html and proof.json into the folder of that run.\n\n" + _RUN_CODES,
        (
            ("prove faithfulness", "what the default judge sees, on its fixture and the sample data"),
            ("prove faithfulness --base none", "on its fixture alone"),
            ("prove exact_match --base answer --calls 10", "with the recorded answers as the good ones"),
        ),
        "prove.md",
    ),
    "rank": Manual(
        "Rank several runs on the cases that all of them scored, with joint confidence in their ranks.",
        f"Writes rank.html, and with --items items.csv, into the folder of the last run.\n\n{_DONE_CODES}",
        (
            ("rank 'outputs/runs/*'", "all runs of this folder"),
            ("rank 'outputs/runs/*' --items", "and which cases separate them"),
        ),
        "ranking.md",
    ),
    "calibrate": Manual(
        "Compare the judge with people's labels, and correct its mean by them; or draw answers for people to label.",
        "With labels: writes labels.jsonl, calibration.json, calibration.html, certificates into certificates/, and "
        "the run's reports again, whose gates follow the corrected means. Without --labels it takes those in the data, "
        "those given to the run before, or those of equal answers in other runs. With --sample: writes a sheet to "
        "label.\n\n"
        "exit codes: 0 done, 2 too few labels for an estimate, or a mistake",
        (
            ("calibrate --sample 60", "draw 60 answers of the latest run into labels.csv"),
            ("calibrate --labels labels.csv", "compare the judge with what people wrote there"),
            ("calibrate", "with the labels in the data, or given before"),
        ),
        "calibration.md",
    ),
    "plan": Manual(
        "Cases, repeats and labels that a wanted precision needs, and their cost: from pilot runs, or from guesses.",
        f"Computes; nothing is sent, and nothing written.\n\n{_DONE_CODES}",
        (
            ("plan --width 0.1 --rate 0.8", "cases for a pass rate known to 0.1"),
            ("plan --detect 0.05 --from outputs/latest", "cases that would show a difference of 0.05"),
        ),
        "statistics.md#planning",
    ),
    "list": Manual(
        "List what can be chosen.",
        f"Reads conf/ of this folder and of the package.\n\n{_DONE_CODES}",
        (
            ("list metric", "all metrics, by family"),
            ("list certificates", "judges that were checked against people"),
            ("list judge --json", "as one JSON document"),
        ),
        "metrics.md",
    ),
    "show": Manual(
        "Show the YAML and the prompts of a metric, dataset, judge or target; or a kind's keys.",
        f"Prints to standard output.\n\n{_DONE_CODES}",
        (
            ("show faithfulness", "the YAML and the prompts of a metric"),
            ("show judge/openai", "a name that stands in two groups"),
            ("show rubric", "every key of a kind"),
        ),
        "metrics.md",
    ),
    "new": Manual(
        "Write the files of a new metric or dataset into ./conf and ./prompts.",
        f"Writes into ./conf and ./prompts, and never over a file that is there.\n\n{_DONE_CODES}",
        (
            ("new metric politeness", "a rubric to fill in"),
            ("new metric my_faithfulness --from faithfulness", "a copy to change"),
            ("new dataset mine --path 'data/*.jsonl'", "a dataset of these files"),
        ),
        "metrics.md",
    ),
    "import": Manual(
        "Write what another tool's files declare into ./conf, ./data and ./prompts, to run and to change.",
        "Writes conf/, data/ and prompts/, and never over a file that is there; then prints what was taken, and each "
        f"thing that was not, with its place and what to do.\n\n{_DONE_CODES}",
        (
            ("import tiamat TEST.json", "a Tiamat test as YAML"),
            ("import langfuse traces.csv --name desk", "cases, and old scores beside new ones"),
            ("import traces traces.jsonl --name live", "a case for each trace of OTLP JSON"),
        ),
        "import.md",
    ),
    "export": Manual(
        "Send a finished run to another tool; what it has already is not sent again.",
        "Sends scores, and notes in the run's folder what the other side took, so that nothing is sent twice. Keys "
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
    ),
    "schema": Manual(
        "JSON Schema of the configuration files, by which editors complete and check them.",
        f"Prints JSON Schema, or writes a file for each group.\n\n{_DONE_CODES}",
        (("schema metric", "of metric files"), ("schema --vscode", "completion and checks in VS Code")),
    ),
    "cache": Manual(
        "Look at the replies that need not be paid for again, or remove some.",
        f"The cache is .evalflow/cache.db, unless cache.path names another.\n\n{_DONE_CODES}",
        (("cache stats", "how many replies it holds"), ("cache prune --to-size 500MB", "the oldest go")),
    ),
    "worker": Manual(
        "Carry out the runs that the application has queued, until it is stopped.",
        "Takes runs from the queue of the workspace in this folder, one process for each.\n\n"
        "exit codes: 0 stopped, 2 the database cannot be used",
        (("worker --at-once 2", "two runs at the same time"),),
        "deploy.md",
    ),
    "serve": Manual(
        "Serve the application: pages, and a REST API under /api/v1.",
        "Data is in .evalflow/ of the working directory, unless --database-url names a server.\n\n"
        "exit codes: 0 stopped, 2 it could not start",
        (
            ("serve --open", "the application on this machine"),
            ("serve --public https://NAME --proxy 127.0.0.1/32", "for people who sign in"),
        ),
        "application.md",
    ),
    "users": Manual(
        "The people who may sign in to `serve --public`.",
        f"Changes the workspace in this folder; `users ACTION --help` has the options.\n\n{_DONE_CODES}",
        (
            ("users add ana --owner", "the first account"),
            ("users list", "all accounts"),
            ("users disable ana", "end her sessions, and refuse her"),
        ),
        "deploy.md",
    ),
    "connections": Manual(
        "The addresses that bots and judges may call where people sign in.",
        f"Changes the workspace in this folder; `connections ACTION --help` has the options.\n\n{_DONE_CODES}",
        (
            ("connections add openai https://api.openai.com/v1 --key OPENAI_API_KEY", "an address with its key"),
            ("connections list", "all of them"),
        ),
        "connections.md",
    ),
    "backup": Manual(
        "Write the workspace (database, runs, tokens, paid replies) into one file, also while it is used.",
        f"Works while the application is used.\n\n{_DONE_CODES}",
        (("backup workspace.tar.gz", "everything, in one file"),),
        "deploy.md",
    ),
    "restore": Manual(
        "Restore a backup into the working directory and its database, both empty.",
        f"Refuses a folder or database that holds something.\n\n{_DONE_CODES}",
        (("restore workspace.tar.gz", "in an empty folder"),),
        "deploy.md",
    ),
    "mcp": Manual(
        "Serve evalflow to an assistant: tools over standard input and output (MCP).",
        f"An assistant starts this program itself; docs/assistants.md says how.\n\n{_DONE_CODES}",
        (("mcp", "tools that send nothing"), ("mcp --allow-run", "and one that evaluates, within a budget")),
        "assistants.md",
    ),
    "completion": Manual(
        "Complete verbs, options and names in your shell, for the command `evalflow`.",
        "Prints a script for the shell, which completes verbs, options, groups and the names in "
        f"conf/ of the working directory.\n\n{_DONE_CODES}",
        (
            ("completion bash >> ~/.bashrc", "for `evalflow` in bash"),
            ("completion zsh >> ~/.zshrc", "in zsh, after compinit"),
            ("completion fish > ~/.config/fish/completions/evalflow.fish", "in fish"),
        ),
        "install.md",
    ),
}
