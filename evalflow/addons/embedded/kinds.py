"""The kinds that this addon registers as `evalflow.judges` and `evalflow.embedders`."""

from __future__ import annotations

from evalflow.config.judges import EmbeddedEmbedderConfig, EmbeddedJudgeConfig
from evalflow.config.kinds import Kind, lazily

_MODEL = "evalflow.addons.embedded.minilm:shared"
JUDGE = Kind(EmbeddedJudgeConfig, lazily("evalflow.addons.embedded.judge:EmbeddedJudge"), _MODEL)
EMBEDDER = Kind(EmbeddedEmbedderConfig, lazily("evalflow.addons.embedded.embedder:EmbeddedEmbedder"), _MODEL)
