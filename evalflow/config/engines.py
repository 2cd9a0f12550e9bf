"""The kinds of engines, which execute a run, and of observers, which receive its records."""

from __future__ import annotations

from typing import Any

from evalflow.config.kinds import Kind, Kinds, lazily
from evalflow.config.surroundings import EngineConfig, LocalEngineConfig, ObserverConfig

ENGINE_KINDS: Kinds[EngineConfig, Any] = Kinds(
    "engine", {"local": Kind(LocalEngineConfig, lazily("evalflow.app.core.engines:LocalEngine"))}
)
OBSERVER_KINDS: Kinds[ObserverConfig, Any] = Kinds("observer", {})
