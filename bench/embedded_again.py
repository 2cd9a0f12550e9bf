"""What the embedded judge costs the second time: CPU of a run, of the same again, of another metric, of a changed bot.

    python bench/embedded_again.py [CASES] [ROUNDS]

CASES (1,000) answers are made of the sentences of the sample answers, each to its own passages, all different.
They are scored for faithfulness, again, then for hallucination, which verifies the same claims, and then as answers of
a bot that changed a third. CPU milliseconds a case are what CASES take more than a tenth of them, least of ROUNDS (2).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from _lab import folder, machine, measured, print_table

from evalflow.values.segments import sentences

DATA = Path(__file__).parents[1] / "data" / "rag.jsonl"


def write(path: Path, count: int, changed: int = 0) -> None:
    """Cases whose answers begin with a sentence of their own; `changed` of three have another one."""
    samples: list[dict[str, Any]] = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            sample = samples[number % len(samples)]
            version = 2 if number % 3 < changed else 1
            own = f"Entry {number} of version {version} says so."
            answer = " ".join([own, *sentences(sample["llm_answer"])])
            chunks = [*sample["structured_contexts"], {"title": "", "html_content": f"<p>Entry {number} is valid.</p>"}]
            row = {"question": f"{number}: {sample['question']}", "llm_answer": answer, "structured_contexts": chunks}
            file.write(json.dumps(row) + "\n")


def command(data: Path, metric: str, mode: str) -> list[str]:
    where = ["dataset=rag", f"dataset.rag.path={data}", f"metric={metric}", f"cache.mode={mode}"]
    return [sys.executable, "-m", "evalflow", *where]


def main() -> int:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    sizes = (max(1, count // 10), count)
    kinds = {
        "without the cache": ("one", "faithfulness", "off"),
        "the first time": ("one", "faithfulness", "refresh"),
        "again": ("one", "faithfulness", "on"),
        "another metric": ("one", "hallucination", "on"),
        "a third of the answers changed": ("two", "faithfulness", "read"),
    }
    print(f"{machine()}; {count:,} cases, least of {rounds}\n")
    with folder() as work:
        for size in sizes:
            write(work / f"one{size}.jsonl", size)
            write(work / f"two{size}.jsonl", size, changed=1)
        rows: list[tuple[str, ...]] = []
        base = 0.0
        for name, (data, metric, mode) in kinds.items():
            runs = [
                min(
                    (measured(command(work / f"{data}{size}.jsonl", metric, mode), work) for _ in range(rounds)),
                    key=lambda one: one.cpu_s,
                )
                for size in sizes
            ]
            each = (runs[1].cpu_s - runs[0].cpu_s) / (sizes[1] - sizes[0]) * 1000
            base = base or each
            rows.append((name, f"{runs[1].wall_s:.1f}", f"{runs[1].cpu_s:.1f}", f"{each:.2f}", f"{each / base:.2f}"))
        print_table(("", "wall, s", "CPU, s", "CPU ms/case", "of the first row"), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
