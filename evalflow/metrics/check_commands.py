"""Checks by a user's program: it gets case and answer as JSON on stdin, and writes a score to stdout."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict

from pydantic import Field

from evalflow.calls.program import ProgramFault, run_program, stderr_in_words
from evalflow.config.schema import MetricConfig, Strict, Word, with_examples
from evalflow.metrics.base import BaseMetric, scored
from evalflow.metrics.case_fields import blocked_outcome, fields_of, tuple_of
from evalflow.metrics.operations import quoted, spelled_number
from evalflow.protocols import Judge
from evalflow.records import Answer, Case, Context, Message, Outcome
from evalflow.values.jsonvalues import as_map, kind, parsed

_AT_ONCE = 4
"""Maximum concurrent processes of one metric."""


class CommandConfig(Strict):
    """A program that decides checks. A case can only name it; it cannot define one.

    Attributes:
        argv: The program and its arguments, run without a shell.
        timeout_s: Time limit in seconds for one answer; the program and its children are then killed.
    """

    model_config = with_examples({"argv": ["python3", "tone.py"], "timeout_s": 10})
    argv: list[Word] = Field(min_length=1)
    timeout_s: float = Field(default=60.0, gt=0, allow_inf_nan=False)


class Commands:
    """The programs that a metric allows, by name. A program without `argv` is never started."""

    def __init__(self, declared: Mapping[str, CommandConfig] | None) -> None:
        self.declared = declared or {}
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def run(self, name: str, data: bytes) -> bytes:
        """Run the program and return its stdout; ProgramFault has the end of its stderr."""
        config = self.declared[name]
        errors = bytearray()
        async with self._places:
            try:
                async with asyncio.timeout(config.timeout_s):
                    return await run_program(config.argv, data, errors)
            except TimeoutError:
                what = f"the command returned no score within {config.timeout_s:g} s"
                raise ProgramFault("timeout", f"{what}{stderr_in_words(errors)}") from None
            except ProgramFault as error:
                raise ProgramFault(error.error_type, f"{error}{stderr_in_words(errors)}") from None


class CommandCheck(BaseMetric[MetricConfig]):
    """The score of a program: 0 to 1, true or false; null leaves the check undefined, with the program's reason."""

    def __init__(
        self, name: str, config: MetricConfig, commands: Commands, command: str, options: Mapping[str, object]
    ) -> None:
        super().__init__(name, config)
        self._commands = commands
        self._command = command
        self._options = options

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        fields = fields_of(case, answer)
        needs = ["actual"] if fields["answer"] is None and fields["actual"] is not None else ["answer"]
        if blocked := blocked_outcome(needs, fields, answer, blank_is_text=True):
            return blocked
        if not self._commands.declared[self._command].argv:
            return Outcome(status="skipped", reason="its program is not started here")
        data = json.dumps(_payload(case, answer, fields, self._options), ensure_ascii=False).encode("utf-8", "replace")
        try:
            stdout = await self._commands.run(self._command, data)
            return _outcome(stdout)
        except ProgramFault as error:
            return Outcome(status="error", error_type=error.error_type, error=f"{self._command}: {error}")
        except ValueError as error:
            return Outcome(status="error", error_type="malformed", error=f"{self._command}: {error}")


def _payload(
    case: Case, answer: Answer, fields: Mapping[str, object], options: Mapping[str, object]
) -> dict[str, object]:
    contexts = [asdict(context) for context in tuple_of(Context, fields["contexts"])]
    return {
        "case": {
            "id": case.id,
            "dataset": case.dataset,
            "question": fields["question"],
            "messages": [message.sent for message in tuple_of(Message, fields["messages"])],
            "reference": case.reference,
            "expected": case.expected,
            "tags": case.tags,
            "vars": case.vars,
        },
        "answer": {
            "answer": answer.answer,
            "full_answer": fields["full_answer"],
            "extracted": answer.extracted,
            "thoughts": answer.thoughts,
            "finish_reason": answer.finish_reason,
            "actual": answer.actual,
            "contexts": None if fields["contexts"] is None else contexts,
            "metadata": fields["metadata"],
            "latency_s": fields["latency_s"],
            "cost_usd": fields["cost_usd"],
            "target": answer.target,
        },
        "options": options,
    }


def _outcome(stdout: bytes) -> Outcome:
    """Read the outcome from a program's stdout; ValueError if it has none."""
    text = stdout.decode("utf-8", "replace")
    try:
        value = parsed(stdout)
    except ValueError:
        raise ValueError(f"its output is not JSON: {quoted(text)}" if text.strip() else "it wrote nothing") from None
    reply = as_map(value)
    if "score" not in reply:
        raise ValueError(f"its reply has no score: {quoted(text)}")
    score, reason = reply["score"], reply.get("reason")
    if reason is not None and not isinstance(reason, str):
        raise ValueError(f"its reason is {kind(reason)}; expected text")
    if score is None:
        return Outcome(status="undefined", reason=reason or "the command returned neither a score nor a reason")
    number = float(score) if isinstance(score, bool) else spelled_number(score)
    if number is None or isinstance(score, str) or not 0 <= number <= 1:
        raise ValueError(f"its score is {kind(score)}; expected a number from 0 to 1, true, false or null")
    return scored(number, score, reason or f"the command gave {number:g}")
