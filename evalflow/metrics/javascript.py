"""The operation that runs a script of JavaScript."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from typing import Literal

from pydantic import model_validator

from evalflow.config.schema import Word, with_examples
from evalflow.extras import install_command
from evalflow.limited import Work
from evalflow.metrics.json_schema import json_of
from evalflow.metrics.operations import BaseOperation, RuleFinding
from evalflow.metrics.reasons import one_line
from evalflow.values.jsonvalues import json_text, look_up, written

_PATIENCE_S = 2.0
_LONGEST = 200  # characters of a reason
_SHOWN = 80  # characters of a script in it
_RETURNED = Work("evalflow.limited.javascript:returned", imports=("quickjs",))
_FAULT = Work("evalflow.limited.javascript:fault", imports=("quickjs",))


class JavaScriptOperation(BaseOperation):
    """Runs JavaScript over a text, as promptfoo does: two seconds at most; no files, network, modules or timers.

    `output` is the text, `context.vars` has the variables of the case. One line is an expression; several lines are the
    body of a function. It passes if it returns true, a number above 0, or an object whose `pass` is true. If it
    throws, or returns a value of another type, the rule fails even with `inverse`.

    Attributes:
        script: The script.
        parsed: Whether to parse the text as JSON for `output`; a text that is not JSON stays a text.
        least: The lowest number that passes; null: any above 0.
        inverse: Whether the rule holds if the script does not pass.
    """

    model_config = with_examples(
        {"op": "javascript", "script": "output.length < 200 && !/sorry/i.test(output)"},
        {"op": "javascript", "script": "output.days === context.vars.days", "parsed": True},
    )
    op: Literal["javascript"]
    script: Word
    parsed: bool = False
    least: float | None = None
    inverse: bool = False

    @model_validator(mode="after")
    def _compiles(self) -> JavaScriptOperation:
        if find_spec("quickjs") is None:
            raise ValueError(f"the operation javascript needs the package quickjs-ng: {install_command('javascript')}")
        if fault := _compile_fault(self.script):
            raise ValueError(f"the script cannot be compiled: {fault}")
        return self

    def test(self, name: str, value: object, fields: Mapping[str, object]) -> RuleFinding:
        context = json.loads(json_text({"vars": look_up("vars", fields) or {}}))
        payload = {"script": self.script, "output": self._output(value), "context": context}
        reply = _RETURNED.call(payload, _PATIENCE_S, "the script")
        if fault := reply.get("fault"):
            return RuleFinding(False, f"the script fails on the {name}: {one_line(fault, _LONGEST)}")
        if "passes" in reply:
            reason = one_line(reply.get("reason") or self._remark(written(reply["passes"])), _LONGEST)
            return RuleFinding(reply["passes"] is not self.inverse, reason)
        grade: float | None = reply["grade"]
        passes = grade is not None and (grade > 0 if self.least is None else grade >= self.least)
        wanted = "above 0" if self.least is None else f"at least {self.least:g}"
        remark = self._remark("NaN" if grade is None else f"{grade:g}")
        return RuleFinding(passes is not self.inverse, f"{remark}; to pass: {wanted}")

    def _remark(self, returned: str) -> str:
        return f"the script returns {returned}: {one_line(self.script, _SHOWN)}"

    def _output(self, value: object) -> object:
        if not self.parsed:
            return written(value)
        try:
            return json_of(value)
        except (ValueError, RecursionError):
            return value


@lru_cache(maxsize=1000)
def _compile_fault(script: str) -> str | None:
    return _FAULT.call({"script": script}, _PATIENCE_S, "compiling the script")
