"""An endpoint that fails as real ones do: what remains unscored, how long it takes, how many calls a case.

    python bench/faults.py [--cases N] [--in-flight N] [--timeout S] [--peers [NAME ...]] [--limit S]

Of all requests 5 % get a 429 with Retry-After 1, 2 % a 500, 1 % malformed JSON, and 0.5 % no answer ever; the others a
good reply after 200 ms. A request that is sent again draws again. Nothing is set for evalflow but the time after which
a call is given up (10 s), which the wall time must not exceed by more than the ideal time and 5 s. Peers run with their
defaults, and are stopped at a limit (300 s). The exit code is 1 where evalflow left a case unscored or took too long.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from _lab import OverTime, evalflow, folder, machine, measured, print_table, write_cases
from _peers import PEERS, REASON, Peer, Unavailable, scored

from evalflow.testing import Endpoint, faulty, malformed, reply, silence, status

LATENCY_S = 0.2
MARGIN_S = 5.0
FAULTS = ((0.05, status(429, retry_after=1)), (0.02, status(500)), (0.01, malformed()), (0.005, silence()))


def endpoint(verdict: object) -> Endpoint:
    """The endpoint, whose good replies are of a form."""
    good = reply(verdict).after(LATENCY_S)
    return Endpoint(faulty(lambda _: good, FAULTS))


def line(name: str, count: int, verdict: object, run: Callable[[str], int]) -> tuple[list[str], float, int]:
    """A line of the table, with the seconds and the number of unscored cases.

    Args:
        name: Who runs.
        count: How many cases there are.
        verdict: What the judge says.
        run: Does it against a URL, and gives how many cases were scored.
    """
    with endpoint(verdict) as there:
        begun = time.perf_counter()
        try:
            unscored = count - run(there.url)
            said = f"{unscored:,}"
        except OverTime as error:
            unscored, said = count, f"all: {error}"
        except RuntimeError as error:
            unscored, said = count, f"all: it ended with {str(error).splitlines()[0]}"
        wall = time.perf_counter() - begun
        calls = there.count / count
    return [name, said, f"{wall:.1f}", f"{calls:.2f}"], wall, unscored


def ours(work: Path, cases: Path, in_flight: int, timeout_s: float) -> Callable[[str], int]:
    """Evalflow."""

    def run(url: str) -> int:
        measured(evalflow(url, cases, in_flight, f"judge.timeout_s={timeout_s}"), work, expect=None)
        return json.loads((work / "outputs" / "latest" / "run.json").read_text())["scores"]["scored"]

    return run


def theirs(peer: Peer, work: Path, cases: Path, in_flight: int, limit_s: float) -> Callable[[str], int]:
    """A peer."""

    def run(url: str) -> int:
        own = work / peer.name
        own.mkdir()
        measured(peer.command(cases, in_flight), own, environment=peer.environment(url, own), limit_s=limit_s)
        return scored(own)

    return run


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--in-flight", type=int, default=100)
    parser.add_argument("--timeout", type=float, default=10.0)
    parser.add_argument("--peers", nargs="*", choices=[peer.name for peer in PEERS])
    parser.add_argument("--limit", type=float, default=300.0)
    arguments = parser.parse_args()
    count, in_flight = arguments.cases, arguments.in_flight
    ideal = count / in_flight * LATENCY_S
    goal = ideal + arguments.timeout + MARGIN_S
    print(f"{machine()}; {count:,} cases at {in_flight} in flight, {LATENCY_S * 1000:g} ms latency\n")
    with folder() as work:
        cases = write_cases(work / "cases.jsonl", count)
        run = ours(work, cases, in_flight, arguments.timeout)
        first, wall, unscored = line("evalflow", count, {"reason": REASON, "score": 4}, run)
        rows = [first]
        wanted = [
            peer
            for peer in PEERS
            if arguments.peers is not None and peer.name in (arguments.peers or [peer.name for peer in PEERS])
        ]
        for peer in wanted:
            try:
                peer.install()
            except Unavailable as error:
                rows.append([peer.name, f"not measured: {error}", "", ""])
            else:
                run = theirs(peer, work, cases, in_flight, arguments.limit)
                rows.append(line(f"{peer.name} {peer.version}", count, peer.reply, run)[0])
    print_table(("", "unscored", "wall s", "calls a case"), rows)
    print(f"goal: 0 unscored within {goal:g} s (ideal {ideal:g} + timeout {arguments.timeout:g} + {MARGIN_S:g})")
    return int(unscored > 0 or wall > goal)


if __name__ == "__main__":
    sys.exit(main())
