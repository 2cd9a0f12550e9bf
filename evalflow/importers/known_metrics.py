"""evalflow's own metrics for scores of other tools, where the cases have what they need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import yaml

from evalflow import paths

_ALWAYS = frozenset({"messages", "history", "answer"})
"""Fields that every case has, or that the target fills."""


def fields_in(case: Mapping[str, Any]) -> set[str]:
    """The fields that metrics find in a case."""
    found = {name for name, value in case.items() if value not in (None, [], "")}
    found |= {"question"} if "messages" in found else set()
    extra = case.get("vars")
    return found | {f"vars.{name}" for name in cast("Mapping[str, Any]", extra or {})}


def like_metrics(names: Iterable[str], fields: set[str]) -> dict[str, list[str]]:
    """Each metric that ships, with the fields that it needs and no case has."""
    return {name: [need for need in _needs(name) if need not in fields and need not in _ALWAYS] for name in names}


def _needs(name: str) -> list[str]:
    text = (paths.share_dir() / "conf" / "metric" / f"{name}.yaml").read_text(encoding="utf-8")
    return [str(need) for need in yaml.safe_load(text).get("needs") or ()]
