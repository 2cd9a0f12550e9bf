"""The kind `python`: a callable of yours that scores an answer."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Literal, Self

from pydantic import Field

from evalflow.calls.callables import Threads, called, imported, own_source
from evalflow.config.schema import MetricConfig, with_examples
from evalflow.config.strict import CallableName
from evalflow.errors import CallError
from evalflow.metrics.base import BaseMetric, lacks_part, scored, wrong
from evalflow.metrics.case_fields import blocked_outcome, fields_of
from evalflow.metrics.operations import quoted, spelled_number
from evalflow.protocols import Judge
from evalflow.records import Answer, Case, Outcome
from evalflow.values.jsonvalues import kind


class PythonMetricConfig(MetricConfig):
    """A Python callable that takes the case and the answer, and returns the score.

    Attributes:
        call: `package.module:callable`; must be given on the command line.
        values: The score of each label, if the callable returns labels.
        bounded: Whether scores lie in 0..1; false for another scale.
        timeout_s: Time limit in seconds for one answer.
        concurrency: Maximum answers scored at once, unless it is a coroutine function.
    """

    model_config = with_examples({"call": "house_scores:tone", "values": {"kind": 1, "rude": 0}})
    kind: Literal["python"]  # pyright: ignore[reportIncompatibleVariableOverride]
    call: CallableName
    needs: list[str] = Field(default=["answer"])
    values: dict[str, float] | None = None
    bounded: bool = True
    timeout_s: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    concurrency: int = Field(default=8, ge=1)

    @property
    def programs(self) -> Sequence[Sequence[str]]:
        return [(self.call,)] if self.call else ()

    @property
    def programs_key(self) -> str:
        return "call"

    def without_programs(self) -> Self:
        return self.model_copy(update={"call": ""})


class PythonMetric(BaseMetric[PythonMetricConfig]):
    """The score that a callable gives for case and answer: a number, true or false, a label or an `Outcome`.

    None leaves the score undefined; an exception makes it an error.
    """

    Config = PythonMetricConfig

    def __init__(self, name: str, config: PythonMetricConfig) -> None:
        super().__init__(name, config)
        self.bounded = config.bounded
        if not config.call:
            return
        key = f"metric.{name}"
        hint = f"name a callable that Python can import from the working directory: {key}.call=package.module:callable"
        _, self._callable = imported(config.call, f"{key}.call", hint)
        # Not the digest of its files, which may include the bot.
        [source] = own_source(self._callable) or [config.call]
        self.files_sha256 = sha256(source.encode()).hexdigest()
        keys = (f"{key}.timeout_s", f"{key}.concurrency")
        self._threads = Threads(config.call, config.concurrency, config.timeout_s, keys)

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        if not self.config.call:
            return Outcome(status="skipped", reason="its callable is not called here")
        if blocked := blocked_outcome(self.config.needs, fields_of(case, answer), answer, blank_is_text=True):
            return blocked
        if self.bounded and lacks_part(self.config, answer):
            return wrong(self.config)
        try:
            await self._threads.room()
            async with asyncio.timeout(self.config.timeout_s):
                given = await called(self._callable, self._threads, case, answer)
            return _outcome(given, self.config)
        except TimeoutError:
            what = f"{_name(self.config)} gave no score within {self.config.timeout_s:g} s"
            return Outcome(status="error", error_type="timeout", error=what)
        except CallError as error:
            return Outcome(status="error", error_type=error.error_type, error=f"{_name(self.config)}: {error}")
        except ValueError as error:
            return Outcome(status="error", error_type="malformed", error=f"{_name(self.config)} {error}")


def _outcome(given: object, config: PythonMetricConfig) -> Outcome:
    """The outcome for a callable's return value; ValueError if it is not valid."""
    if given is None:
        return Outcome(status="undefined", reason=f"{_name(config)} returned None")
    if isinstance(given, Outcome):
        if given.status == "scored":
            _expect_in_range(spelled_number(given.score), given.score, config)
        return given
    if isinstance(given, str):
        return scored(_worth(given, config.values), given, f"{_name(config)} returned {quoted(given)}")
    given = _plain(given)
    number = float(given) if isinstance(given, bool) else spelled_number(given)
    score = _expect_in_range(number, given, config)
    text = str(given).lower() if isinstance(given, bool) else f"{score:g}"
    return scored(score, given if isinstance(given, bool) else score, f"{_name(config)} returned {text}")


def _name(config: PythonMetricConfig) -> str:
    return config.call.partition(":")[2]


def _plain(number: object) -> object:
    item = getattr(number, "item", None)
    return item() if callable(item) else number


def _worth(label: str, values: Mapping[str, float] | None) -> float:
    if label in (values or {}):
        return (values or {})[label]
    hint = "give each label its score: values: {good: 1, bad: 0}"
    raise ValueError(f"returned the label {quoted(label)}, which `values` does not have; {hint}")


def _expect_in_range(number: float | None, given: object, config: PythonMetricConfig) -> float:
    wanted = "a number from 0 to 1" if config.bounded else "a number"
    if number is None or not math.isfinite(number):
        raise ValueError(f"returned {kind(given)}; expected {wanted}, true, false, a label, an Outcome or None")
    if config.bounded and not 0 <= number <= 1:
        raise ValueError(f"returned {number:g}; expected {wanted}; for another scale: bounded: false")
    return number
