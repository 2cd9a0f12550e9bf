"""Runs JavaScript in QuickJS: no files, no network, no modules, no timers."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

_MEMORY = 64 * 1024**2
_OUT_OF_MEMORY = "InternalError: out of memory"
_LONGEST = 200  # characters of a message, and of a reason that a script gives
_DRIVER = r"""
let told;
const cut = value => String(value).slice(0, LONGEST);
const fault = error => ({fault: cut(error instanceof Error ? `${error.name}: ${error.message}` : error)});
function bodies(script) {
  const text = script.trim();
  if (text.includes("\n")) return [text];
  const line = text.replace(/[;\s]+$/, ""), end = line.lastIndexOf(";") + 1;
  return [`return (${line}\n)`, ...(end ? [`${line.slice(0, end)} return (${line.slice(end)}\n)`] : []), text];
}
function made(script) {
  let first;
  for (const body of bodies(script)) {
    try { return new Function("output", "context", body); } catch (error) { first ??= error; }
  }
  throw first;
}
function verdict(value) {
  if (typeof value === "boolean") return {passes: value};
  if (typeof value === "number") return {grade: Number.isNaN(value) ? null : Math.min(Math.max(value, -1e308), 1e308)};
  if (value && typeof value === "object" && typeof value.pass === "boolean")
    return {passes: value.pass, reason: value.reason ? cut(value.reason) : ""};
  return {fault: `it returns ${value === null ? "null" : Array.isArray(value) ? "a list" : typeof value}, ` +
    "not true, false, a number or an object with `pass`"};
}
function start(script, output, context) {
  try {
    const found = made(script)(output, context);
    if (!(found instanceof Promise)) told = verdict(found);
    else found.then(value => { told = verdict(value); }, error => { told = fault(error); });
  } catch (error) { told = fault(error); }
}
function compiles(script) {
  try { made(script); } catch (error) { return fault(error).fault; }
  return null;
}
""".replace("LONGEST", str(_LONGEST))


def returned(script: str, output: Any, context: Any) -> dict[str, Any]:
    """What a script returns: `passes` with the `reason` it gives, or the `grade`; or its `fault`, such as an exception.

    A script of one line is an expression; one of several lines is the body of a function of `output` and `context`. A
    promise is waited for. MemoryError if it needs more than 64 MB.
    """
    engine = _engine()
    _called(engine, "start", script, output, context)
    while engine.eval("told === undefined") and engine.execute_pending_job():
        pass
    reply = json.loads(engine.eval("JSON.stringify(told ?? {fault: 'it waits for what never comes'})"))
    if reply.get("fault") == _OUT_OF_MEMORY:
        raise MemoryError
    return reply


def fault(script: str) -> str | None:
    """Why a script cannot be compiled; None if it can."""
    return _called(_engine(), "compiles", script)


def _engine() -> Any:
    engine: Any = import_module("quickjs").Context()
    engine.set_memory_limit(_MEMORY)
    engine.eval(_DRIVER)
    return engine


def _called(engine: Any, name: str, *values: Any) -> Any:
    """The result of a function of the driver.

    Values go as JSON: as JavaScript, a key `__proto__` would set a prototype. JSON goes as ASCII, since
    the engine does not take halves of characters.
    """
    arguments = ", ".join(f"JSON.parse({json.dumps(json.dumps(value))})" for value in values)
    try:
        return engine.eval(f"{name}({arguments})")
    except import_module("quickjs").JSException as error:
        if str(error).startswith(_OUT_OF_MEMORY):
            raise MemoryError from error
        raise
