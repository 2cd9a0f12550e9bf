"""How much of the ideal speed a run reaches: 1,000 calls at 100 in flight, 10,000 at 500, 200 ms each.

    python bench/throughput.py

Ideal is calls / in flight x latency. What counts is the time from the first request to the last answer as the endpoint
sees it, so that start-up and reports, which `startup` and `overhead` measure, do not blur it; the whole run is beside
it. On two cores the endpoint and the client share what there is: the floor, aiohttp and nothing else, shows how much is
left to reach.
"""

from __future__ import annotations

from _lab import Endpoint, evalflow, floor, folder, machine, measured, print_table, write_cases

LATENCY_S = 0.2
LOADS = ((1_000, 100), (10_000, 500))


def main() -> None:
    """Measure and print."""
    print(f"{machine()}; {LATENCY_S * 1000:g} ms latency\n")
    rows: list[tuple[str, ...]] = []
    with folder() as work:
        for calls, in_flight in LOADS:
            ideal = calls / in_flight * LATENCY_S
            cases = write_cases(work / f"{calls}.jsonl", calls)
            for name in ("aiohttp floor", "evalflow"):
                with Endpoint(LATENCY_S) as endpoint:
                    ours = evalflow(endpoint.url, cases, in_flight, f"cache.path={work}/{calls}.db")
                    cost = measured(ours if name == "evalflow" else floor(endpoint.url, calls, in_flight), work)
                assert endpoint.requests == calls
                busy = endpoint.busy_s
                efficiency, rate = f"{ideal / busy:.0%}", f"{calls / busy:,.0f}"
                whole, peak = f"{cost.wall_s:.1f}", f"{cost.peak_mib:.0f}"
                rows.append((f"{calls:,} at {in_flight}", name, efficiency, rate, whole, peak))
    print_table(("load", "", "efficiency", "calls/s", "whole run, s", "peak RSS, MiB"), rows)


if __name__ == "__main__":
    main()
