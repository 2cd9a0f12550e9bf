"""What a judged case costs the peers, evalflow and an aiohttp floor: same cases, same endpoint, in one run.

    python bench/peers.py [--cases N] [--in-flight N] [--only NAME ...]

deepeval, inspect, promptfoo and ragas are installed into environments of their own (see `_peers`); one that cannot be
is named under the table. Each judges a few cases to warm up, then half of them, then all, one call a case, 200 ms each:
the CPU a case is what the second half took, so that imports and what a run does once drop out. Efficiency is the ideal
time, calls / in flight x latency, over the time from the first request to the last answer as the endpoint sees it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from _lab import Cost, Endpoint, evalflow, floor, folder, machine, measured, print_table, write_cases
from _peers import PEERS, Peer, Unavailable, scored

LATENCY_S = 0.2
LIMIT_S = 900.0
WARM_UP = 20


@dataclass(frozen=True, slots=True)
class Entrant:
    """Who takes part: how it is run, and what its judge says."""

    run: Callable[[str, Path, int], Cost]
    reply: str | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """What came of it."""

    cost: Cost
    endpoint: Endpoint
    begun_s: float


def entrants(work: Path, in_flight: int, only: list[str], missing: dict[str, str]) -> dict[str, Entrant]:
    """All that can take part, by name; why others cannot goes to `missing`."""
    fresh = iter(range(1_000_000))

    def ours(url: str, cases: Path, _count: int) -> Cost:
        return measured(evalflow(url, cases, in_flight, f"cache.path={work}/{next(fresh)}.db"), work)

    found = {
        "aiohttp floor": Entrant(lambda url, _, count: measured(floor(url, count, in_flight), work)),
        "evalflow": Entrant(ours),
    }
    for peer in PEERS:
        if only and peer.name not in only:
            continue
        try:
            peer.install()
        except Unavailable as error:
            missing[peer.name] = str(error)
        else:
            found[f"{peer.name} {peer.version}"] = Entrant(_runner(peer, work, in_flight), peer.reply)
    return found


def _runner(peer: Peer, work: Path, in_flight: int) -> Callable[[str, Path, int], Cost]:
    fresh = iter(range(1_000_000))

    def run(url: str, cases: Path, count: int) -> Cost:
        own = work / f"{peer.name}-{next(fresh)}"  # of its own, so that no run finds what another has cached
        own.mkdir()
        environment = peer.environment(url, own)
        cost = measured(peer.command(cases, in_flight), own, environment=environment, limit_s=LIMIT_S)
        if scored(own) != count:
            raise RuntimeError(f"only {scored(own)} of {count} cases were scored")
        return cost

    return run


def raced(entrant: Entrant, cases: Mapping[int, Path], count: int) -> Figures:
    """One run, as its own process and the endpoint see it."""
    with Endpoint(LATENCY_S, entrant.reply) as endpoint:
        begun = time.time()
        cost = entrant.run(endpoint.url, cases[count], count)
    if endpoint.requests != count:
        raise RuntimeError(f"{endpoint.requests} requests for {count} cases")
    return Figures(cost, endpoint, begun)


def each_ms(figures: Sequence[Figures]) -> float:
    """CPU milliseconds that a case more has taken."""
    small, large = figures
    more = large.endpoint.requests - small.endpoint.requests
    return (large.cost.cpu_s - small.cost.cpu_s) / more * 1000


def row(name: str, figures: Sequence[Figures], in_flight: int, floor_ms: float) -> list[str]:
    """A line of the table."""
    large = figures[-1]
    cost, endpoint = large.cost, large.endpoint
    ideal = endpoint.requests / in_flight * LATENCY_S
    return [
        name,
        f"{endpoint.mean_bytes / 1000:.1f}",
        f"{endpoint.first_s - large.begun_s:.1f}",
        f"{ideal / endpoint.busy_s:.0%}",
        f"{each_ms(figures):.2f}",
        f"{each_ms(figures) / floor_ms:.1f}",
        f"{cost.peak_mib:.0f}",
        f"{cost.wall_s:.1f}",
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=600)
    parser.add_argument("--in-flight", type=int, default=50)
    parser.add_argument("--only", nargs="+", default=[], choices=[peer.name for peer in PEERS])
    arguments = parser.parse_args()
    in_flight, sizes = arguments.in_flight, (arguments.cases // 2, arguments.cases)
    print(f"{machine()}; {sizes[1]:,} cases at {in_flight} in flight, {LATENCY_S * 1000:g} ms latency\n")
    missing: dict[str, str] = {}
    with folder() as work:
        cases = {size: write_cases(work / f"{size}.jsonl", size) for size in (WARM_UP, *sizes)}
        taking_part = entrants(work, in_flight, arguments.only, missing)
        found: dict[str, list[Figures]] = {}
        for name, entrant in taking_part.items():
            try:
                _, *found[name] = [raced(entrant, cases, size) for size in (WARM_UP, *sizes)]
            except RuntimeError as error:
                missing[name] = str(error).strip().splitlines()[-1]
    floor_ms = each_ms(found["aiohttp floor"])
    rows = [row(name, figures, in_flight, floor_ms) for name, figures in found.items()]
    head = ("", "kB a request", "first request, s", "efficiency", "CPU ms/case", "x floor", "peak RSS, MiB", "wall s")
    print_table(head, rows)
    for name, why in missing.items():
        print(f"not measured: {name}: {why}")


if __name__ == "__main__":
    main()
