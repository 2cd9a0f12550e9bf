"""The addresses that a run would send data to, and the data sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from evalflow.app.core.inspect import Inspection
from evalflow.config.judges import RemoteModelConfig
from evalflow.config.schema import RunConfig
from evalflow.config.targets import HttpTargetConfig
from evalflow.llm.sdk import OPENAI_URL
from evalflow.redaction import public_address

_UNKNOWN = "an address that the installed package knows"


@dataclass(slots=True)
class Destination:
    """An address that data is sent to.

    Attributes:
        address: Without user, password and query.
        here: Whether it is this machine.
        keys: The environment variables with the keys that are sent along.
        sent: The data sent there.
    """

    address: str
    here: bool
    keys: list[str] = field(default_factory=list[str])
    sent: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        key = f"key in {', '.join(self.keys)}" if self.keys else "no key"
        where = "this machine, " if self.here else ""
        return f"{self.address} ({where}{key}): {'; '.join(self.sent)}"


def destinations(inspection: Inspection) -> list[Destination]:
    """Return each address once, in the order in which a run calls them; empty if nothing is sent."""
    places: dict[str, Destination] = {}
    for address, key, what in _sent(inspection):
        shown = public_address(address) if "://" in address else address
        place = places.setdefault(shown, Destination(shown, _is_here(address)))
        place.keys += [key] if key and key not in place.keys else []
        place.sent += [] if what in place.sent else [what]
    return list(places.values())


def _sent(inspection: Inspection) -> Iterator[tuple[str, str | None, str]]:
    """Yield each address with the variable of its key and the data sent."""
    parts, run = inspection.parts, inspection.parts.settings.run
    yield from _questions(inspection, run)
    asked: dict[tuple[str, str, str | None], list[str]] = {}
    for pair in parts.pairs:
        who: list[tuple[str, object]] = [
            (f"judge {judge.info.name}", config) for judge, config in parts.asked(pair) if judge.info.remote
        ]
        if pair.embedder is not None and pair.embedder.info.remote:
            who.append((f"embedder {pair.embedder.info.name}", run.embedder))
        for name, config in who:
            asked.setdefault((name, *_place(config)), []).append(pair.metric.name)
    for (name, address, key), metrics in asked.items():
        fields = dict.fromkeys(field for metric in metrics for field in run.metric[metric].needs)
        yield address, key, f"{name}: {', '.join(fields) or 'what checks name'}, for {', '.join(metrics)}"
    if run.engine.sends_to is not None:
        yield run.engine.sends_to, None, "engine: cases and answers"
    if run.otel.endpoint is not None:
        texts = {"none": "scores", "reasons": "scores and reasons", "all": "scores, reasons, questions and answers"}
        yield run.otel.endpoint, None, f"otel: {texts[run.otel.text]}"
    if run.cache.url is not None:
        yield run.cache.url, None, "cache: requests and replies"
    if run.copy_to is not None:
        yield run.copy_to, None, "copy_to: the folder of the finished run"


def _questions(inspection: Inspection, run: RunConfig) -> Iterator[tuple[str, str | None, str]]:
    if run.generate not in (True, "missing"):
        return
    name = inspection.parts.target.name
    what = f"target {name}: questions"
    target = run.target
    if isinstance(target, HttpTargetConfig):
        yield from ((address, None, what) for address in target.addresses.values())
    elif isinstance(target, RemoteModelConfig):
        yield *_place(target), what
    elif not target.runs_here:
        yield _UNKNOWN, None, what
    if run.simulator.turns and isinstance(run.simulator, RemoteModelConfig):
        yield *_place(run.simulator), "simulator: scenarios and conversations"


def _place(config: object) -> tuple[str, str | None]:
    if not isinstance(config, RemoteModelConfig):
        return _UNKNOWN, None
    return config.base_url or OPENAI_URL, config.api_key_env


def _is_here(address: str) -> bool:
    host = urlsplit(address if "://" in address else f"//{address}").hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
