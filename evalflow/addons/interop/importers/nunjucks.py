"""Nunjucks templates of JavaScript tools: as Jinja prompts over `vars`, and rendered with a case's variables.

The languages differ in operators and some filters; and a missing variable is "" in Nunjucks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Set
from decimal import Decimal

from jinja2 import ChainableUndefined, TemplateError, UndefinedError, meta

from evalflow.addons.interop.importers.ledger import Untranslatable
from evalflow.prompts.sandbox import Sandbox, Unrenderable
from evalflow.values.jsonvalues import as_list, as_map

_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_SPELLINGS = (
    (re.compile(r"==="), "=="),
    (re.compile(r"!=="), "!="),
    (re.compile(r"&&"), " and "),
    (re.compile(r"\|\|"), " or "),
    (re.compile(r"\{%(-?)\s*else\s*if\b"), r"{%\1 elif"),
    (re.compile(r"\|\s*dump\b(\(\s*\))?"), "| json"),
    (re.compile(r"\.length\b"), "|length"),
)
_BUILT_IN = frozenset({"loop", "range", "cycler", "joiner", "true", "false", "none", "null", "undefined"})
_OUTSIDE = ("include", "import", "extends", "from", "asyncEach", "asyncAll", "call", "macro")
_SET = "set it in the test, or for all tests in defaultTest.vars"
_ENVIRONMENT = re.compile(r"\benv\b\s*(?:\.\s*(\w+)|\[\s*['\"](\w+))?")


def is_template(text: str) -> bool:
    """Whether the text has any tags."""
    return "{{" in text or "{%" in text or "{#" in text


def jinja_of(source: str) -> tuple[str, frozenset[str]]:
    """The template in Jinja, with its variables under `vars`, and their names; Untranslatable if that is impossible."""
    if not is_template(source):
        return source, frozenset()
    text = _spelled(source)
    environment = _environment()
    try:
        free = meta.find_undeclared_variables(environment.parse(text)) - _BUILT_IN
        _expect_known(text, free)
        return _below_vars(environment, text, free), frozenset(free)
    except TemplateError as error:
        raise Untranslatable(f"Jinja cannot parse its template: {error.message}") from None
    except RecursionError:
        raise Untranslatable("its template is nested too deeply") from None


def render(source: str, variables: Mapping[str, object]) -> str:
    """Render the template; Untranslatable if that fails here, or if it shows an unset variable."""
    if not is_template(source):
        return source
    text = _spelled(source)
    environment = _environment()
    try:
        _expect_known(text, meta.find_undeclared_variables(environment.parse(text)))
        scripted = {name: _as_script(value) for name, value in variables.items()}
        return environment.text_of(environment.from_string(text), scripted)
    except Untranslatable:
        raise
    except Unrenderable as error:
        if isinstance(error.__cause__, UndefinedError):
            raise Untranslatable(f"it uses {error}, which is not set", _SET) from None
        raise Untranslatable(f"its template cannot be rendered: {error}") from None
    except TemplateError as error:
        raise Untranslatable(f"its template cannot be rendered: {error.message}") from None
    except Exception as error:
        raise Untranslatable(f"its template cannot be rendered: {error}") from None


def rendered_variables(variables: Mapping[str, object]) -> dict[str, object]:
    """The variables, with texts that are templates over other variables rendered."""
    return {name: _everywhere(value, lambda text: render(text, variables)) for name, value in variables.items()}


def _everywhere(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _everywhere(inner, change) for key, inner in as_map(value).items()}
    return [_everywhere(inner, change) for inner in as_list(value)] if isinstance(value, list) else value


class _Unset(ChainableUndefined):
    """An unset variable: it may be tested or get a default, but not be shown."""

    def __str__(self) -> str:
        raise UndefinedError(f"{{{{{self._undefined_name}}}}}")

    def __iter__(self) -> Iterator[object]:
        raise UndefinedError(f"{{{{{self._undefined_name}}}}}")


def _environment() -> Sandbox:
    return Sandbox({"json": _json}, undefined=_Unset, autoescape=False, keep_trailing_newline=True)


def _json(value: object) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), default=str)


def _plain(value: object) -> object:
    """The value of `_as_script` as JSON has it."""
    match value:
        case _Null():
            return None
        case _Boolean():
            return bool(value)
        case _Number():
            return int(value) if value.is_integer() else float(value)
        case dict():
            return {key: _plain(inner) for key, inner in as_map(value).items()}
        case list():
            return [_plain(inner) for inner in as_list(value)]
        case _:
            return value


class _Null(str):
    """Written as nothing."""

    __slots__ = ()


class _Boolean(int):
    """Written as JavaScript writes it."""

    def __str__(self) -> str:
        return "true" if self else "false"


class _Number(float):
    """Written as JavaScript writes it: 1.0 as 1, and 0.00001 without an exponent."""

    def __str__(self) -> str:
        if not 1e-6 <= abs(self) < 1e21:
            return "0" if self == 0 else repr(float(self)).replace("e-0", "e-")
        return f"{Decimal(repr(float(self))):f}".removesuffix(".0")


class _Object(dict[str, object]):
    """Written as JSON, as promptfoo does."""

    def __str__(self) -> str:
        return _json(self)


class _List(list[object]):
    """Written as JavaScript writes it."""

    def __str__(self) -> str:
        return ",".join(map(str, self))


def _as_script(value: object) -> object:
    """A value that is written as JavaScript writes it, null as nothing."""
    if value is None:
        return _Null()
    if isinstance(value, bool):
        return _Boolean(value)
    if isinstance(value, float):
        return _Number(value)
    if isinstance(value, Mapping):
        return _Object({key: _as_script(inner) for key, inner in as_map(value).items()})
    return _List([_as_script(inner) for inner in as_list(value)]) if isinstance(value, list) else value


def as_text(value: object) -> str:
    """The text of a value as JavaScript's String() gives it."""
    return str(_as_script(value))


def _spelled(source: str) -> str:
    """The tags with Jinja's operators and filters; quoted texts are unchanged."""

    def tag(match: re.Match[str]) -> str:
        parts: list[str] = []
        end = 0
        for quoted in _QUOTED.finditer(match[0]):
            parts += [_respelled(match[0][end : quoted.start()]), quoted[0]]
            end = quoted.end()
        return "".join([*parts, _respelled(match[0][end:])])

    return _TAG.sub(tag, source)


def _respelled(text: str) -> str:
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    return text


def _expect_known(text: str, free: Set[str]) -> None:
    if "env" in free:
        names = {name for pair in _ENVIRONMENT.findall(text) for name in pair if name}
        named = f" {' and '.join(sorted(names))}" if names else ""
        raise Untranslatable(f"it reads the environment variable{named}", "write the value into the file")
    for tag in _TAG.findall(text):
        word = re.match(r"\{%-?\s*(\w+)", tag)
        if word and word[1] in _OUTSIDE:
            raise Untranslatable(f"it uses {{% {word[1]} %}}", "replace it by the included text")
    if special := sorted(name for name in free if name.startswith("_")):
        raise Untranslatable(f"it uses {special[0]}, which only promptfoo has")


def _below_vars(environment: Sandbox, text: str, free: Set[str]) -> str:
    parts: list[str] = []
    before = ""
    tokens = list(environment.lex(text))
    for position, (_, kind, value) in enumerate(tokens):
        following = next((item for _, what, item in tokens[position + 1 :] if what != "whitespace"), "")
        is_variable = kind == "name" and value in free and before not in (".", "|", "is")
        is_argument = following == "=" and before in ("(", ",")
        below = f"vars[{value!r}]" if hasattr(dict, value) else f"vars.{value}"
        parts.append(below if is_variable and not is_argument else value)
        if kind != "whitespace":
            before = value
    return "".join(parts)
