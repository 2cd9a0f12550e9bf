"""The text of `VERB --help` below its options: files, exit codes, examples, and the page to read."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from evalflow.errors import program


@dataclass(frozen=True, slots=True)
class Manual:
    """The help of a verb.

    Attributes:
        about: What it does.
        text: The paragraphs after the options: files and exit codes.
        examples: Command lines without the program, each with its effect.
        page: A page of docs/ with more.
        overview: Its lines in the overview of `--help`; empty for a verb that the overview has elsewhere.

    Example:
        >>> Manual("Count the words.", "exit codes: 0 done", (("count", "of the latest run"),)).about
        'Count the words.'
    """

    about: str
    text: str
    examples: tuple[tuple[str, str], ...]
    page: str = ""
    overview: str = ""

    def __str__(self) -> str:
        lines = [line for part in self.text.split("\n\n") for line in (*textwrap.wrap(part, WIDTH), "")]
        return "\n".join([*lines, self.examples_of("")])

    def examples_of(self, prefix: str) -> str:
        """The examples that begin with these words, and the page with more; empty without an example."""
        own = [example for example in self.examples if example[0].startswith(prefix)]
        lines = [line for typed, about in own for line in (f"  {program()} {typed}", f"      {about}")]
        more = ["", f"more: docs/{self.page}"] if self.page else []
        return "\n".join(["examples:", *lines, *more]) if own else ""


WIDTH = 80
OVERVIEW = """\
evalflow: evaluate LLM applications from YAML, with numbers that can be defended

usage: {program} [run] [OVERRIDES] [-m] [--config-dir DIR]
       {program} VERB ...

run it
  {program} dataset=rag metric=faithfulness                  one metric, no key needed
  {program} dataset=rag 'metric=[faithfulness,relevance]'    several together, one run
  {program} -m dataset=rag metric=faithfulness judge=a,b     a sweep, one run per judge
  {program} ... metric.faithfulness.threshold=0.9            change a value
  Brackets mean together, commas mean one after another. --fill-demo keeps the
  answers as the example answers that are missing, in a new file beside the
  data; --replace-demo as all of them.

verbs (RUN is a run's folder; without it, the latest)
"""
"""The first lines of the overview, for `str.format`; the lines of the verbs follow."""
OVERVIEW_END = """\

exit codes
  0 done   1 a gate failed   2 configuration or data error   3 inconclusive
  4 budget ran out   5 infrastructure error, or a bug in evalflow
  6 waiting for batches: resume collects   130 interrupted

Hydra's own flags work too: --cfg job, --info defaults, --hydra-help.
"""
RUN_CODES = (
    "exit codes: 0 done, 1 a gate failed, 2 a mistake in configuration or data (nothing was sent), 3 inconclusive, "
    "4 the budget ran out, 5 an endpoint refuses every call, or a bug, 6 waiting for batches, 130 interrupted"
)
DONE_CODES = "exit codes: 0 done, 2 it could not be done, and the message says why"

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
        f"--cfg job, --info defaults, --hydra-help.\n\n{RUN_CODES}",
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
        overview="  check [OVERRIDES]                 everything short of the first request, with an estimate",
    ),
    "resume": Manual(
        "Finish a run; nothing that is finished is asked again. budget.usd=5 raises its budget, and engine=ray "
        "continues it in a cluster.",
        "Reads run.json and the journals of the folder, asks what is missing, and writes all files again.\n\n"
        + RUN_CODES,
        (
            ("resume", "the latest run"),
            ("resume outputs/latest --retry-errors", "ask again what ended in error"),
            ("resume outputs/latest budget.usd=5", "with more to spend"),
        ),
        overview="  resume [RUN] [--retry-errors]     finish a run; nothing finished is asked again",
    ),
    "cases": Manual(
        "Show cases: question, answer, score, reason and the judge's steps.",
        f"Prints to standard output; nothing is written or sent.\n\n{DONE_CODES}",
        (
            ("cases --failed", "what did not pass in the latest run"),
            ("cases outputs/latest --metric exact_match --limit 3", "three cases, with reasons"),
            ("cases --failed --json", "as one JSON document"),
        ),
        overview=(
            "  cases [RUN] [--failed] [--metric M] [--tag T] [--id ID]\n"
            "                                    question, answer, score, reason and steps"
        ),
    ),
    "report": Manual(
        "Write the reports of runs or sweeps again, from their records; nothing is sent.",
        "Reads the journals and writes the reports again; nothing is sent. Other thresholds are kept with the run.\n\n"
        f"{DONE_CODES}; what changed of the run's own exit code is printed",
        (("report", "the latest run"), ("report metric.exact_match.threshold=0.5", "with another threshold")),
        overview=(
            "  report [DIR ...] [metric.M.threshold=X]\n"
            "                                    write reports again, for free, with other thresholds"
        ),
    ),
    "open": Manual(
        "Show a report in the browser.",
        f"Opens report.html in the browser; without a browser, prints its path.\n\n{DONE_CODES}",
        (("open outputs/latest", "the latest report"),),
        overview="  open [RUN]                        show the report in a browser",
    ),
    "compare": Manual(
        "Hold run B against run A, case by case: better, worse, or cannot tell.",
        "Pairs the cases of both runs, tests each difference, adjusts for their number, and writes compare.html and "
        f"compare.md into the folder of B.\n\n{DONE_CODES}",
        (
            ("compare RUN_A RUN_B", "what became better or worse"),
            ("compare RUN_A RUN_B --margin 0.05", "whether B is not worse by more than 0.05"),
            ("compare RUN_A RUN_B --json", "as one JSON document"),
        ),
        "statistics.md",
        overview="  compare RUN_A [RUN_B]             better, worse or cannot tell; a sweep: every pair",
    ),
    "race": Manual(
        "Ask two configurations the same cases turn by turn, until one is shown to be better.",
        f"Both sides are runs with folders of their own; compare.html is in that of B.\n\n{RUN_CODES}",
        (("race dataset=rag metric=exact_match generate=demo target.name=a,b", "until one is shown to be better"),),
        "statistics.md",
        overview="  race OVERRIDES target=A,B         both on the same cases, until one is better",
    ),
    "prove": Manual(
        "Compare a judge's scores with those of people on a metric's fixture, and say which faults it sees.",
        "Runs the metric over its fixture, cases with the scores that people would give; over answers that are good "
        "(people's references), and over the same answers with a fault put in: another number or name, a negation, a "
        "sentence too many or too few; and with changes that should not matter: spaces, order, paraphrase, padding. "
        "Writes proof.html and proof.json into the folder of that run.\n\n" + RUN_CODES,
        (
            ("prove faithfulness", "what the default judge sees, on its fixture and the sample data"),
            ("prove faithfulness --base none", "on its fixture alone"),
            ("prove exact_match --base answer --calls 10", "with the recorded answers as the good ones"),
        ),
        "prove.md",
        overview="  prove METRIC [OVERRIDES]          which faults in good answers it sees, without labels",
    ),
    "rank": Manual(
        "Rank several runs on the cases that all of them scored, with joint confidence in their ranks.",
        f"Writes rank.html, and with --items items.csv, into the folder of the last run.\n\n{DONE_CODES}",
        (
            ("rank 'outputs/runs/*'", "all runs of this folder"),
            ("rank 'outputs/runs/*' --items", "and which cases separate them"),
        ),
        "ranking.md",
        overview=(
            "  rank [RUN ...] [--items] [--short N --out NAME]\n"
            "                                    several runs in order, and how sure their ranks are;\n"
            "                                    which cases separate them; a short set of cases"
        ),
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
        overview=(
            "  calibrate [RUN] --sample N        a sheet of answers for people to label\n"
            "  calibrate [RUN] [--labels FILE]   judge against people; the corrected estimate;\n"
            "                                    of a sweep: which judge agrees most"
        ),
    ),
    "align": Manual(
        "Show a judge answers that people graded, and keep that only if other labels say that it helps.",
        "Splits the labels of a run's answers, by group: one half gives the examples, those on which judge and people "
        "differ most, and with --wording the mistakes by which the judge rewords the criterion of a rubric; the judge "
        "then scores the other half again with these, as a run of its own. Writes the metric's next version into "
        "conf/metric only if agreement with people is higher by more than chance; else it says how many labels would "
        "decide it. Shows the examples and the number of calls before it asks anything.\n\n"
        "exit codes: 0 better, and written; 1 worse; 3 the labels do not decide; 2 a mistake, or too few labels or "
        "calls; 4 the budget ran out; 5 infrastructure error",
        (
            ("align coherence --labels labels.csv", "the judge of the latest run's coherence"),
            ("align coherence --labels labels.csv --dry-run", "what it would be shown, and the calls"),
        ),
        "align.md",
        overview="  align METRIC [RUN] [--labels FILE] teach the judge by people's labels, if that helps",
    ),
    "plan": Manual(
        "Cases, repeats and labels that a wanted precision needs, and their cost: from pilot runs, or from guesses.",
        f"Computes; nothing is sent, and nothing written.\n\n{DONE_CODES}",
        (
            ("plan --width 0.1 --rate 0.8", "cases for a pass rate known to 0.1"),
            ("plan --detect 0.05 --from outputs/latest", "cases that would show a difference of 0.05"),
        ),
        "statistics.md#planning",
        overview=(
            "  plan --detect D | --width W [--from RUN]\n"
            "                                    cases, repeats and cost that a wanted precision needs"
        ),
    ),
    "list": Manual(
        "List what can be chosen.",
        f"Reads conf/ of this folder and of the package.\n\n{DONE_CODES}",
        (
            ("list metric", "all metrics, by family"),
            ("list certificates", "judges that were checked against people"),
            ("list judge --json", "as one JSON document"),
        ),
        "metrics.md",
        overview=(
            "  list [GROUP]                      dataset, metric, judge, target, experiment,\n"
            "                                    certificates"
        ),
    ),
    "show": Manual(
        "Show the YAML and the prompts of a metric, dataset, judge or target; or a kind's keys.",
        f"Prints to standard output.\n\n{DONE_CODES}",
        (
            ("show faithfulness", "the YAML and the prompts of a metric"),
            ("show judge/openai", "a name that stands in two groups"),
            ("show rubric", "every key of a kind"),
        ),
        "metrics.md",
        overview="  show NAME                         YAML, prompts and an example",
    ),
    "new": Manual(
        "Write the files of a new metric, dataset or experiment into ./conf and ./prompts.",
        f"Writes into ./conf and ./prompts, and never over a file that is there.\n\n{DONE_CODES}",
        (
            ("new metric politeness", "a rubric to fill in"),
            ("new metric my_faithfulness --from faithfulness", "a copy to change"),
            ("new dataset mine --path 'data/*.jsonl'", "a dataset of these files"),
            ("new dataset mine --path cases.xlsx --sheet Answers", "a dataset of one sheet of a workbook"),
            ("new experiment nightly dataset=rag metric=faithfulness limit=20", "this run, as one file"),
        ),
        "experiments.md",
        overview=(
            "  new metric NAME [--from METRIC]   a metric of your own: YAML and prompts\n"
            "  new dataset NAME --path FILE      a dataset of your own\n"
            "  new experiment NAME OVERRIDES     an evaluation as one YAML file"
        ),
    ),
    "schema": Manual(
        "JSON Schema of the configuration files, by which editors complete and check them.",
        f"Prints JSON Schema, or writes a file for each group.\n\n{DONE_CODES}",
        (("schema metric", "of metric files"), ("schema --vscode", "completion and checks in VS Code")),
        overview=(
            "  schema [GROUP] [--out DIR] [--vscode]\n"
            "                                    JSON Schema of the YAML files, for editors"
        ),
    ),
    "cache": Manual(
        "Look at the replies that need not be paid for again, or remove some.",
        f"The cache is .evalflow/cache.db, unless cache.path names another.\n\n{DONE_CODES}",
        (("cache stats", "how many replies it holds"), ("cache prune --to-size 500MB", "the oldest go")),
        overview=(
            "  cache stats                       replies that need not be paid for again\n"
            "  cache prune --older-than DAYS | --to-size 500MB | --all"
        ),
    ),
    "completion": Manual(
        "Complete verbs, options and names in your shell, for the command `evalflow`.",
        "Prints a script for the shell, which completes verbs, options, groups and the names in "
        f"conf/ of the working directory.\n\n{DONE_CODES}",
        (
            ("completion bash >> ~/.bashrc", "for `evalflow` in bash"),
            ("completion zsh >> ~/.zshrc", "in zsh, after compinit"),
            ("completion fish > ~/.config/fish/completions/evalflow.fish", "in fish"),
        ),
        "install.md",
        overview="  completion bash|zsh|fish          complete verbs, options and names in your shell",
    ),
}
