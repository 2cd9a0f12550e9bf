"""The names that an extension may rely on. An extension is a package that adds kinds, verbs, engines or importers.

Its entry points name what it adds; `docs/extending.md` has an example of each. Names that are not here may change
without notice.
"""

from __future__ import annotations

from evalflow.app.core.engines import Engine, EngineJob, ObservedRun, Observer
from evalflow.app.core.saved import SavedRun, find_run
from evalflow.cli.manual import Manual
from evalflow.cli.parsing import Verb, VerbParser, Work, console
from evalflow.config.schema import EmbedderConfig, JudgeConfig, MetricConfig, TargetConfig
from evalflow.config.simulators import ConversationLimits, SimulatorConfig
from evalflow.config.surroundings import EngineConfig, ObserverConfig
from evalflow.doors import Door
from evalflow.engine.pipeline import Pipeline
from evalflow.errors import (
    InfrastructureError,
    JudgeError,
    Problem,
    TargetError,
    UserError,
)
from evalflow.extras import packages_of
from evalflow.metrics.base import BaseMetric, FieldMetric, scored
from evalflow.protocols import Embedder, Importer, Judge, OmittedRow, Simulator, Sink, Target
from evalflow.records import (
    Answer,
    Ask,
    Case,
    Context,
    Embedded,
    JudgeInfo,
    Message,
    Outcome,
    Reply,
    ScoreRecord,
    SimulatedTurn,
    Spend,
    Usage,
    numbered_results,
)
from evalflow.records.manifest import ExportFacts
from evalflow.targets.recorded import blank

__all__ = [
    "Answer",
    "Ask",
    "BaseMetric",
    "Case",
    "Context",
    "ConversationLimits",
    "Door",
    "Embedded",
    "Embedder",
    "EmbedderConfig",
    "Engine",
    "EngineConfig",
    "EngineJob",
    "ExportFacts",
    "FieldMetric",
    "Importer",
    "InfrastructureError",
    "Judge",
    "JudgeConfig",
    "JudgeError",
    "JudgeInfo",
    "Manual",
    "Message",
    "MetricConfig",
    "ObservedRun",
    "Observer",
    "ObserverConfig",
    "OmittedRow",
    "Outcome",
    "Pipeline",
    "Problem",
    "Reply",
    "SavedRun",
    "ScoreRecord",
    "SimulatedTurn",
    "Simulator",
    "SimulatorConfig",
    "Sink",
    "Spend",
    "Target",
    "TargetConfig",
    "TargetError",
    "Usage",
    "UserError",
    "Verb",
    "VerbParser",
    "Work",
    "blank",
    "console",
    "find_run",
    "numbered_results",
    "packages_of",
    "scored",
]
