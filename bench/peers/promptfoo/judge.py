"""promptfoo's `llm-rubric` over the cases: the provider `echo` repeats the recorded answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

RUBRIC = "Each sentence of the output follows from the one before, so that it reads as a whole."


def configuration(rows: list[dict[str, str]]) -> dict[str, object]:
    """The content of promptfooconfig.json."""
    judge = {"type": "llm-rubric", "value": RUBRIC, "provider": "openai:chat:gpt-4o"}
    return {
        "prompts": ["{{answer}}"],
        "providers": ["echo"],
        "defaultTest": {"assert": [judge]},
        "tests": [{"vars": {"question": row["question"], "answer": row["llm_answer"]}} for row in rows],
    }


def main(cases: Path, in_flight: int) -> None:
    """Judge the cases."""
    rows = [json.loads(line) for line in cases.read_text().splitlines()]
    Path("promptfooconfig.json").write_text(json.dumps(configuration(rows)))
    program = Path(os.environ["PEER_HOME"]) / "node_modules" / ".bin" / "promptfoo"
    command = [program, "eval", "-c", "promptfooconfig.json", "-j", str(in_flight), "-o", "results.json", "--no-table"]
    subprocess.run(command, check=False)  # its exit code tells of cases that failed
    results = json.loads(Path("results.json").read_text())["results"]["results"]
    # Every reply says that the case passes, so one that failed was not judged.
    print(f"\nscored {sum(result['success'] for result in results)} of {len(rows)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
