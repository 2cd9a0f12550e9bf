"""Whether deterministic assertions say the same in evalflow as in promptfoo, on the same recorded answers.

    python bench/imports.py [--config FILE] [--keep FOLDER]

promptfoo is installed into an environment of its own (see `_peers`) and evaluates answers that the configuration brings
along, so that no model is asked. `import promptfoo` takes its results, evalflow scores the same answers, and each of
promptfoo's scores is compared with evalflow's. Anything but 100 % is listed, and ends with exit code 1. Not among them:
contains-json, which takes YAML-like text for JSON there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import polars as pl
from _lab import folder, machine, print_table
from _peers import PEERS, QUIET, Peer, Unavailable

OUTPUTS = (
    "The pool opens at nine.",
    "the POOL opens at 9",
    "Straße und Cafe\u0301",
    "Café",
    "42",
    " 42 ",
    "true",
    "null",
    '{"a": "x", "n": 3, "list": [1, 2.5, {"b": null}], "ok": true}',
    '{"a": "y", "n": "3"}',
    '{"a": ',
    "[1, 2, 3]",
    'Here it is: {"a": "x", "n": 1} and {"b": 2}.',
    "line one\nline two\r\nline three",
    "ends with a line\n",
    "price: $5.00 (approx.)",
    "٣ arabic digits",
    "non\u00a0breaking",
    "😀 emoji",
    "<a><b>x</b></a>",
    "<a><b></a>",
    "a,b;c|d",
    "x" * 300,
    "quotes \"and\" 'both'",
    "2024-05-06",
    "yes",
    "No",
    "tab\tbed",
    "back\\slash",
    "{not json}",
)
SCHEMA = {"type": "object", "required": ["a"], "properties": {"n": {"type": "number"}}}
ASSERTS: tuple[dict[str, Any], ...] = (
    *(
        {"type": kind, "value": value}
        for kind in ("contains", "icontains", "starts-with", "equals")
        for value in ("pool", "POOL", "The", "42", "Café", "a", "true", "{{word}}")
    ),
    {"type": "contains", "value": 42},
    {"type": "equals", "value": 42},
    {"type": "equals", "value": True},
    {"type": "equals", "value": {"a": "y", "n": "3"}},
    {"type": "equals", "value": [1, 2, 3]},
    *({"type": f"{i}contains-{which}", "value": ["pool", "CAFÉ", "5"]} for i in ("", "i") for which in ("any", "all")),
    {"type": "contains-any", "value": "nine, x"},
    {"type": "contains-all", "value": 'a, "b;c"'},
    *(
        {"type": "regex", "value": value}
        for value in (
            r"\d+",
            r"^\d+$",
            r"^\w+$",
            r"one.line",
            r"one[\s\S]line",
            r"non\sbreaking",
            r"\bPOOL\b",
            r"[A-Z]{2,}",
            r"^.$",
            r"(?<y>\d{4})-(?<m>\d\d)",
            r"x{300}",
            r"line$",
            r"\$5\.00",
            r"(a|b),(b|c)",
            r"\u00e9",
            r"[^a-z\s]",
            r"\/|\\",
        )
    ),
    {"type": "is-json"},
    {"type": "is-json", "value": SCHEMA},
    {"type": "is-json", "value": json.dumps(SCHEMA)},
    {"type": "is-xml"},
    {"type": "is-xml", "value": "a.b"},
    {"type": "word-count", "value": 5},
    {"type": "word-count", "value": {"min": 2, "max": 4}},
    {"type": "latency", "threshold": 60_000},
    {"type": "cost", "threshold": 1},
)
SCRIPTS = (
    "output.includes('pool')",
    "!output.includes('pool')",
    "output.trim() === '42'",
    "output.toLowerCase() === 'yes'",
    "output.length < 20",
    "output.length >= 20 && output.includes('a')",
    "output === 'No' || output.startsWith('Caf')",
    "/^\\d{4}/.test(output)",
    "JSON.parse(output).a === 'x'",
    "JSON.parse(output).n > 2",
    "JSON.parse(output).list[2].b === null",
    "JSON.parse(output).a !== 'x'",
    "JSON.parse(output).ok === true",
    "JSON.parse(output).n == 3",
    "JSON.parse(output).n === 3 || output.includes('a')",
    "output.length <= 20 ? 1 : 0",
    "const data = JSON.parse(output);\nreturn data.list?.[2]?.b === null;",
    "['x', 'z'].includes(JSON.parse(output).a)",
    "output.includes(context.vars.word)",
    "!(output.includes('pool') && output.includes('9'))",
    "JSON.parse(output).list[0] === 1 || !output.includes('a')",
    "String(output).toLowerCase().includes('POOL'.toLowerCase())",
    "output.includes('a') || output.includes('o') && output.length < 9",
    "['42', 'No'].includes(output.trim())",
)


def configuration() -> dict[str, Any]:
    """Every output with every assertion and its opposite; and groups with weights and thresholds."""
    opposites = ({**one, "type": f"not-{one['type']}"} for one in ASSERTS)
    singles = [*ASSERTS, *opposites, *({"type": "javascript", "value": script} for script in SCRIPTS)]
    tests: list[dict[str, Any]] = [_test(output, singles) for output in OUTPUTS]
    contains = [{"type": "contains", "value": value} for value in ("a", "o", "The", "4")]
    for weights in ((1, 2, 3, 4), (0, 1, 0, 5)):
        weighted = [{**one, "weight": weight} for one, weight in zip(contains, weights, strict=True)]
        named = [{**one, "metric": f"m{number % 2}"} for number, one in enumerate(weighted)]
        sets = [
            {"type": "assert-set", "assert": list(pair), "threshold": 0.5} for pair in (weighted[1:3], weighted[2:])
        ]
        for output in OUTPUTS:
            tests += [
                _test(output, weighted),
                _test(output, weighted, threshold=0.5),
                _test(output, named),
                _test(output, sets),
            ]
    return {"prompts": ["{{word}}"], "providers": ["echo"], "tests": tests}


def _test(output: str, asserts: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    return {"vars": {"word": "pool"}, "providerOutput": output, "assert": asserts, **changes}


def evaluated(peer: Peer, config: Path, work: Path) -> Path:
    """Promptfoo's results of a configuration."""
    results = work / "results.json"
    program = peer.program("promptfoo")
    words = [
        "eval",
        "-c",
        str(config),
        "-o",
        str(results),
        "--no-cache",
        "--no-table",
        "--no-progress-bar",
        "--no-write",
    ]
    environment = {**os.environ, **QUIET, "HOME": str(work), "PROMPTFOO_CONFIG_DIR": str(work / "promptfoo")}
    environment |= {"PROMPTFOO_DISABLE_REMOTE_GENERATION": "1"}
    done = subprocess.run([program, *words], cwd=work, env=environment, check=False, capture_output=True, text=True)
    if not results.exists():
        raise Unavailable((done.stderr or done.stdout).strip()[-500:])
    return results


def scored(results: Path, work: Path) -> Iterator[tuple[str, str, float, float, str]]:
    """Each score that both have: type of assertion, case, promptfoo's, evalflow's, answer."""
    done = _evalflow(work, "import", "promptfoo", str(results), "--name", "peer")
    print(done.partition("not translated\n")[2].partition("note ")[0] or "everything was translated\n")
    for data in sorted((work / "data").glob("peer*.jsonl")):
        _evalflow(work, f"experiment={data.stem}", "generate=false")
        frame = pl.read_parquet(work / "outputs" / "latest" / "scores.parquet")
        ours = {(row["case_id"], row["metric"]): row["score"] for row in frame.iter_rows(named=True)}
        for line in data.open(encoding="utf-8"):
            case = json.loads(line)
            for check in case.get("checks", ()):
                name = check["name"]
                theirs = _theirs(case, name, check)
                own = ours.get((case["id"], name))
                if theirs is not None:
                    yield name, case["id"], float(theirs), -1.0 if own is None else own, case["answer"]


def _theirs(case: dict[str, Any], name: str, check: dict[str, Any]) -> Any:
    recorded = case["promptfoo"]
    if name == "test_score":
        return recorded["score" if check["params"].get("threshold") is None else "passed"]
    return recorded.get("".join(one if one.isalnum() else "_" for one in name.lower()))


def _evalflow(work: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "evalflow", *words], cwd=work, check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def main() -> int:
    """Compare, and print by type of assertion."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, help="a configuration with providerOutput; without it, one of its own")
    parser.add_argument("--keep", type=Path, help="work in this folder, and keep it")
    arguments = parser.parse_args()
    [peer] = [peer for peer in PEERS if peer.name == "promptfoo"]
    try:
        peer.install()
    except Unavailable as error:
        print(f"promptfoo cannot be installed here: {error}")
        return 1
    print(f"{machine()}; promptfoo {peer.version}\n")
    with nullcontext(arguments.keep) if arguments.keep else folder() as work:
        work.mkdir(parents=True, exist_ok=True)
        config = work / "promptfooconfig.json"
        if arguments.config:
            shutil.copy(arguments.config, config)
        else:
            config.write_text(json.dumps(configuration()), encoding="utf-8")
        found = list(scored(evaluated(peer, config, work.resolve()), work))
    totals: Counter[str] = Counter()
    agreed: Counter[str] = Counter()
    for name, case, theirs, own, answer in found:
        kind = name.rstrip("0123456789").removesuffix("_")
        same = abs(theirs - own) < 1e-9
        totals[kind] += 1
        agreed[kind] += same
        if not same:
            print(f"differs: {name} of case {case}: promptfoo {theirs:g}, evalflow {own:g}, answer {answer[:60]!r}")
    rows = [[kind, f"{totals[kind]:,}", f"{agreed[kind] / totals[kind]:.2%}"] for kind in sorted(totals)]
    total, same = totals.total(), agreed.total()
    print_table(("assertion", "compared", "agree"), [*rows, ["all", f"{total:,}", f"{same / (total or 1):.2%}"]])
    return 0 if total and total == same else 1


if __name__ == "__main__":
    sys.exit(main())
