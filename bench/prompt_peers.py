"""Calls and prompt tokens of a score, beside deepeval and ragas: the same cases, and a judge that lists two items.

    python bench/prompt_peers.py

Each metric scores the first eight cases of data/rag.jsonl. Tokens are those of the messages, counted as in
`prompt_cost`, without embeddings and without schemas in `response_format`. ragas writes the schema into its prompts, so
it counts there. A peer that cannot be installed is named under the table.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from _peers import PEERS, Peer, Unavailable
from prompt_cost import counter

from evalflow.app.core.assemble import composed_settings
from evalflow.datasets import read
from evalflow.testing import Endpoint, Request
from evalflow.testing.replies import Instances
from evalflow.values.jsonvalues import as_list, as_map

CASES = 8
LISTED = 2
NAMES = (
    "faithfulness",
    "relevance",
    "answer_relevancy",
    "context_precision",
    "context_recall",
    "context_relevance",
    "factual_correctness",
    "hallucination",
    "toxicity",
    "bias",
    "pii_leakage",
    "summarisation",
)
WITH_COUNTS = ("deepeval", "ragas")


def _distinct(value: object) -> object:
    """A list of texts without equal ones, since a text that is there twice counts once."""
    if not isinstance(value, list):
        return value
    return [f"Statement {at}" if isinstance(one, str) else one for at, one in enumerate(as_list(value), 1)]


Cost = tuple[int, int]
"""Calls and prompt tokens."""


class Counting:
    """An endpoint's script that counts what it is asked."""

    def __init__(self) -> None:
        self._count = counter()
        self._calls = self._tokens = 0

    def __call__(self, request: Request) -> object:
        self._calls += 1
        self._tokens += self._count(request.text)
        asked = re.search(r"Give exactly (\d+) result", request.text)
        made = Instances(length=int(asked[1]) if asked else LISTED).make(request.schema or {"type": "string"})
        return made if isinstance(made, str) else {name: _distinct(value) for name, value in as_map(made).items()}

    def taken(self) -> Cost:
        """What was asked since the last time."""
        found = self._calls, self._tokens
        self._calls = self._tokens = 0
        return found


def ours(cases: Path, url: str, counting: Counting, work: Path) -> dict[str, Cost]:
    """What evalflow asks for each metric."""
    judge = ("judge=openai", "judge.model=gpt-4o", f"judge.base_url={url}", "judge.api_key_env=null")
    data = ("dataset=rag", f"dataset.rag.path={cases}", "dataset.rag.fields=null", "cache.mode='off'")
    found: dict[str, Cost] = {}
    for name in NAMES:
        command = (sys.executable, "-m", "evalflow", f"metric={name}", *data, *judge)
        subprocess.run(command, cwd=work, check=True, capture_output=True)
        found[name] = counting.taken()
    return found


def theirs(peer: Peer, cases: Path, url: str, counting: Counting, work: Path) -> dict[str, Cost]:
    """What a peer asks for each metric that it has; Unavailable if it ends early."""
    script = Path(__file__).parent / "peers" / peer.name / "tokens.py"
    command = [peer.command(cases, 1)[0], str(script), str(cases)]
    found: dict[str, Cost] = {}
    with (work / f"{peer.name}.txt").open("w+") as said:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": said}
        process = subprocess.Popen(command, cwd=work, env=peer.environment(url, work), text=True, **pipes)
        assert process.stdin
        assert process.stdout
        for line in process.stdout:
            if line.startswith("done "):
                found[line.split()[1]] = counting.taken()
                process.stdin.write("\n")
                process.stdin.flush()
        if process.wait():
            said.seek(0)
            raise Unavailable((said.read().strip().splitlines() or ["it failed"])[-1])
    return found


def main() -> None:
    """Print a row for each metric."""
    counting = Counting()
    table: dict[str, dict[str, Cost]] = defaultdict(dict)
    missing: dict[str, str] = {}
    with TemporaryDirectory() as folder, Endpoint(counting) as endpoint:
        work = Path(folder)
        rag = composed_settings(["dataset=rag", "metric=exact_match"], None).run.dataset["rag"]
        rows = [
            {
                "question": case.question,
                "answer": case.answer,
                "reference": case.reference,
                "contexts": [context.text for context in case.contexts or ()],
            }
            for case, _ in zip(read("rag", rag), range(CASES), strict=False)
        ]
        cases = work / "cases.jsonl"
        cases.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        table["evalflow"] = ours(cases, endpoint.url, counting, work)
        for peer in (one for one in PEERS if one.name in WITH_COUNTS):
            try:
                peer.install()
                table[f"{peer.name} {peer.version}"] = theirs(peer, cases, endpoint.url, counting, work)
            except Unavailable as error:
                missing[peer.name] = str(error)
    print("| metric | " + " | ".join(f"{name}: calls, tokens" for name in table) + " |")
    print("|" + "---|" * (len(table) + 1))
    for name in NAMES:
        cells = [
            f"{cost[0] / CASES:.1f}, {cost[1] / CASES:,.0f}" if (cost := found.get(name)) else "-"
            for found in table.values()
        ]
        print(f"| `{name}` | {' | '.join(cells)} |")
    for name, why in missing.items():
        print(f"not measured: {name}: {why}")


if __name__ == "__main__":
    main()
