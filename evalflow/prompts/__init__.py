"""Prompt templates: sandboxed Jinja, looked up in the search folders, without undefined variables.

The judged text is data. The filter `fenced` puts it between delimiters that the text cannot contain:

    {{ answer | fenced("answer") }}

A template that extends `_shared/prompt.jinja` fills its blocks `rules`, `material` and `task`; `fences` puts them into
messages. A template without these blocks is one message.

On a public server templates are isolated: they are rendered in a limited process, since strangers write them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import pickle
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from jinja2 import (
    BaseLoader,
    ChoiceLoader,
    FileSystemLoader,
    FunctionLoader,
    StrictUndefined,
    Template,
    TemplateNotFound,
    TemplateSyntaxError,
    Undefined,
    meta,
    nodes,
    pass_environment,
)

from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.limited import Work
from evalflow.limited.process import forbid_files
from evalflow.prompts.columns import PromptColumns
from evalflow.prompts.fences import NO_KEY, Key, examples_text, fenced, laid_out, one_line, part_mark
from evalflow.prompts.sandbox import SECONDS, Codes, Sandbox, Unrenderable
from evalflow.records import Message
from evalflow.values.trajectories import trajectory_text

JUDGED = (
    "question",
    "history",
    "messages",
    "answer",
    "reference",
    "contexts",
    "turn_contexts",
    "demo_answer",
    "scenario",
    "persona",
    "goal",
    "facts",
    "brief",
    "source",
    "against",
)
"""Variables of a judge's prompts that hold untrusted text."""
_ELSEWHERE = (nodes.Macro, nodes.CallBlock, nodes.AssignBlock, nodes.FilterBlock)
"""Blocks whose output does not go into the prompt unchanged."""
LONGEST_KEPT = 100_000
"""Maximum length, in characters, of a template's text that a run stores, and of a template of strangers."""
NOT_KEPT = f"(more than {LONGEST_KEPT:,} characters, not kept)"
"""The placeholder for a text that a run did not store."""
_UNCOMPILED = (RecursionError, SyntaxError, ValueError)
"""What Python raises for templates that Jinja accepts; ValueError for a number of thousands of digits."""
_HARMLESS = ("fenced", "length", "count")
# What Jinja loads as it needs it.
_IMPORTS = ("jinja2.constants", "jinja2.debug", "textwrap", "pprint", "html", "encodings.latin_1")
_RENDERING = Work("evalflow.prompts:rendered", imports=_IMPORTS, output=256 * 1024**2, files=64)
_INLINE = " inline"
"""The name of a template without a file."""


def as_json(value: object) -> str:
    """A value as JSON, for templates that produce JSON."""
    if isinstance(value, Undefined):
        return str(value)  # the empty result of an `if` without an `else`; any other undefined name raises here
    return json.dumps(value, ensure_ascii=False)


def percent_encoded(value: object) -> str:
    """A text, number or boolean as one part of an address, percent-encoded so that it cannot end that part.

    >>> percent_encoded("a/b c")
    'a%2Fb%20c'
    """
    if isinstance(value, Undefined) or not isinstance(value, str | int | float):
        raise ValueError(f"a part of an address must be text or a number, got {type(value).__name__}")
    return quote(str(value).lower() if isinstance(value, bool) else str(value), safe="")


@pass_environment
def _part(environment: Sandbox, name: str) -> str:
    return part_mark(name, environment.part_mark)


def _environment(loader: BaseLoader, key: Key) -> Sandbox:
    def fence(text: object, name: str) -> str:
        return fenced(text, name, key())

    # A template is read once, even if every prompt includes it: a run uses the text that it started with.
    return Sandbox(
        {
            "fenced": fence,
            "json": as_json,
            "one_line": one_line,
            "part": _part,
            "percent_encoded": percent_encoded,
            "trajectory": trajectory_text,
        },
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
        auto_reload=False,
        bytecode_cache=_codes(),
    )


def _texts(sources: Mapping[str, str]) -> FunctionLoader:
    """Load templates from texts by name; unlike a DictLoader it gives them a file name, which errors then have."""
    return FunctionLoader(lambda name: (sources[name], name, None) if name in sources else None)


@cache
def _codes() -> Codes:
    return Codes()


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A template that can be rendered. If it is isolated, `sources` are the texts of it and its includes, by name."""

    name: str
    compiled: Template
    sources: Mapping[str, str] | None
    key: Key


class Prompts:
    """The templates of a run; those written by strangers are `isolated`."""

    def __init__(
        self,
        folders: Sequence[Path],
        unsaved: Mapping[str, str] = MappingProxyType({}),
        *,
        isolated: bool = False,
        key: Key = NO_KEY,
    ) -> None:
        """`unsaved` are templates by name that are found before those of the folders; `key` makes the ids of fences."""
        files = FileSystemLoader([str(folder) for folder in folders])
        self._environment = _environment(ChoiceLoader([_texts(unsaved), files]) if unsaved else files, key)
        if isolated:
            self._environment.longest = LONGEST_KEPT
        self._key = key
        self._folders, self._unsaved = folders, unsaved
        self._isolated = isolated
        self._kept: dict[str, str] = {}

    def get(self, name: str) -> PromptTemplate:
        """The compiled template of that name, such as `faithfulness/claims.jinja`; UserError if it cannot be used."""
        compiled = self._compiled(name, name)
        return PromptTemplate(name, compiled, self._sources([name]) if self._isolated else None, self._key)

    def _sources(self, names: Sequence[str]) -> dict[str, str]:
        return {part: self.source(part) for name in names for part in self.parts(name)}

    def _compiled(self, name: str, asked: str) -> Template:
        try:
            return self._environment.get_template(name)
        except TemplateNotFound as error:
            raise UserError(self._not_found(asked, str(error.name or name))) from None
        except UnicodeDecodeError:
            raise UserError(Problem("the prompt is not UTF-8", name, "save it as UTF-8")) from None
        except OSError as error:
            raise UserError(Problem(f"the prompt cannot be read: {error.strerror}", name)) from None
        except TemplateSyntaxError as error:
            raise UserError(
                Problem(error.message or "syntax error", f"{error.filename or name}:{error.lineno}")
            ) from None
        except _UNCOMPILED as error:
            raise UserError(Problem(_uncompiled(error), name)) from None

    def inline(self, source: str, where: str) -> PromptTemplate:
        """A template from text in YAML; UserError if it does not parse."""
        try:
            compiled = self._environment.from_string(source)
            if not self._isolated:
                return PromptTemplate(_INLINE, compiled, None, self._key)
            sources = {**self._sources(_read(source).includes), _INLINE: source}
            return PromptTemplate(_INLINE, compiled, sources, self._key)
        except TemplateSyntaxError as error:
            raise UserError(Problem(error.message or "syntax error", where)) from None
        except _UNCOMPILED as error:
            raise UserError(Problem(_uncompiled(error), where)) from None

    def source(self, name: str) -> str:
        if self._is_plain(name):
            return self.text(name)
        self._compiled(name, name)
        assert self._environment.loader
        return self._environment.loader.get_source(self._environment, name)[0]

    def keep(self, name: str, text: str) -> None:
        """Keep a text among the prompts under a name, such as the examples of a step; it is not a template."""
        self._kept[name] = text

    def is_kept(self, name: str) -> bool:
        """Whether a text was kept, so that it has no file."""
        return name in self._kept

    def text(self, name: str) -> str:
        """A text that is not a template: one that was kept, or a file of the folders; UserError if there is none."""
        if name in self._kept:
            return self._kept[name]
        try:
            assert self._environment.loader
            return self._environment.loader.get_source(self._environment, name)[0]
        except TemplateNotFound:
            places = ", ".join(str(folder) for folder in self._folders)
            raise UserError(Problem(f"the file {name!r} is in none of: {places}", name)) from None
        except (UnicodeDecodeError, OSError):
            raise UserError(Problem("the file cannot be read as UTF-8", name)) from None

    def _is_plain(self, name: str) -> bool:
        return name in self._kept or name.endswith((".yaml", ".yml"))

    def variables(self, name: str) -> set[str]:
        """The variables that a template and its includes expect; UserError if it has no text."""
        names: set[str] = set()
        if _read(self.source(name)).is_empty:
            raise UserError(Problem("the prompt is empty", name, "write what the judge is asked"))
        for part in self.parts(name):
            names |= _read(self.source(part)).variables
        return names

    def place_of(self, name: str, variable: str) -> str:
        """File and line of the first use of a variable in a template or its includes, such as `mine/grade.jinja:3`."""
        for part in self.parts(name):
            if not self._is_plain(part) and variable in (lines := _read(self.source(part)).lines):
                return f"{part}:{lines[variable]}"
        return name

    def columns(self, name: str) -> dict[str, bool]:
        """The columns of `vars` that a template and its includes read, and whether a case must have them."""
        requirements: dict[str, bool] = {}
        for part in self.parts(name):
            for column, needed in used_in(self.source(part))[1].items():
                requirements[column] = requirements.get(column, False) or needed
        return requirements

    def inline_variables(self, source: str) -> set[str]:
        return meta.find_undeclared_variables(self._environment.parse(source))

    def unfenced(self, name: str) -> list[str]:
        """Judged variables that are output without `fenced`. Values that go through a macro are not followed."""
        facts = [_read(self.source(part)) for part in self.parts(name) if not self._is_plain(part)]
        return [field for field in JUDGED if any(field in one.unfenced for one in facts)]

    def tags(self, name: str) -> set[str]:
        """The names that a template itself gives to judged texts, such as `first` in `{{ source | fenced("first") }}`.

        Empty if it cannot be read.
        """
        try:
            return set(_read(self.source(name)).tags)
        except UserError:  # reported where the prompt is checked
            return set()

    def digest(self, names: Sequence[str]) -> str:
        """A hash of the text of these templates and everything they include."""
        parts = sorted({part for name in names for part in self.parts(name)})
        text = "\0".join(f"{part}\0{self.source(part)}" for part in parts)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def texts(self, parts: Collection[str]) -> dict[str, str]:
        """The texts of these templates, by name, without those that are too long to keep."""
        texts = {part: self.source(part) for part in parts}
        return {part: text for part, text in sorted(texts.items()) if len(text) <= LONGEST_KEPT}

    def parts(self, name: str) -> list[str]:
        """The template and everything it includes or imports."""
        names: list[str] = []
        queue = [name]
        while queue:
            part = queue.pop()
            if part in names:
                continue
            names.append(part)
            if self._is_plain(part):
                continue
            self._compiled(part, name)
            queue += _read(self.source(part)).includes
        return names

    def _not_found(self, asked: str, missing: str) -> Problem:
        files = [(folder, path) for folder in self._folders for path in folder.rglob("*.jinja") if path.is_file()]
        known = [*self._unsaved, *(path.relative_to(folder).as_posix() for folder, path in files)]
        included = f", which {asked} includes," if asked != missing else ""
        places = ", ".join(str(folder) for folder in self._folders)
        return Problem(f"prompt {missing!r}{included} is in none of: {places}", hint=did_you_mean(missing, known))


def is_file_name(source: str) -> bool:
    """Whether a prompt names a template's file, rather than being the text."""
    return source.endswith(".jinja") and not any(char.isspace() or char == "{" for char in source)


def used_in(source: str) -> tuple[frozenset[str], Mapping[str, bool]]:
    """The variables that a template's text uses, and the columns of `vars` that it reads by name; see `PromptColumns`.

    UserError if it does not parse.

    >>> names, columns = used_in("{% set plan = vars.plan %}{{ plan }} {# {{ answer }} #} {{ vars.get('fee') }}")
    >>> names, dict(columns)
    (frozenset({'vars'}), {'plan': True, 'fee': False})
    """
    try:
        facts = _read(source)
    except TemplateSyntaxError as error:
        raise UserError(Problem(error.message or "syntax error", f"line {error.lineno}")) from None
    except _UNCOMPILED as error:
        raise UserError(Problem(_uncompiled(error))) from None
    return facts.variables, facts.columns if "vars" in facts.variables else {}


def not_given(used: Collection[str], known: Collection[str], where: str, whom: str) -> Iterator[Problem]:
    """Return the variables that a template uses but is not given; `whom` says what the template is for."""
    for name in sorted(set(used) - set(known)):
        yield Problem(f"the template uses {name!r}, which {whom} does not get", where, did_you_mean(name, known))


def render(template: PromptTemplate, variables: Mapping[str, Any], where: str) -> str:
    """The text of a template, whose parts follow each other; errors as in `messages`."""
    return "\n\n".join(message.content for message in messages(template, variables, where))


def messages(
    template: PromptTemplate, variables: Mapping[str, Any], where: str, examples: Sequence[Mapping[str, object]] = ()
) -> tuple[Message, ...]:
    """The messages of a prompt, with few-shot examples after its rules.

    UserError if it cannot be rendered, or takes more text or time than any prompt can need.
    """
    environment, shown = template.compiled.environment, examples_text(examples, template.key()) if examples else ""
    assert isinstance(environment, Sandbox)
    try:
        if template.sources is None:
            return laid_out(environment.text_of(template.compiled, variables), environment.part_mark, shown)
        # Pickled, since templates use the attributes of records; nothing of it comes back.
        values = base64.b64encode(pickle.dumps(dict(variables))).decode()
        mark = secrets.token_hex(16)  # another one each time: the templates of strangers can read it
        task = {"name": template.name, "sources": template.sources, "variables": values}
        text = _RENDERING.call({**task, "key": template.key().hex(), "mark": mark}, SECONDS + 1, "it")
        return laid_out(text, mark, shown)
    except ValueError as error:
        raise UserError(Problem(f"the prompt cannot be rendered: {error}", where or template.name)) from None


def rendered(name: str, sources: Mapping[str, str], variables: str, key: str, mark: str) -> str:
    """Render a template in a limited process; ValueError says why it cannot be rendered."""
    values = pickle.loads(base64.b64decode(variables))  # noqa: S301 - of the caller, who is trusted
    environment = _isolated(tuple(sources.items()), bytes.fromhex(key))
    environment.part_mark = mark
    forbid_files()  # Python's modules have been read by now
    try:
        return environment.text_of(environment.get_template(name), values)
    except Unrenderable as error:
        if isinstance(error.__cause__, OSError):  # a codec that nobody has used, such as of "x".encode("cp1253")
            what = f"it opens {error.__cause__.filename}, but such a template must not open files"
            raise Unrenderable(what) from None
        raise


@lru_cache(maxsize=16)
def _isolated(sources: tuple[tuple[str, str], ...], key: bytes) -> Sandbox:
    environment = _environment(_texts(dict(sources)), lambda: key)
    for name, _ in sources:
        environment.get_template(name)
    return environment


@dataclass(frozen=True, slots=True)
class _TemplateFacts:
    """What can be read in the text of a template that parses.

    `lines` are those of the first use of each name; `columns` are those of `vars`, and whether a case must have them.
    """

    is_empty: bool
    lines: Mapping[str, int]
    includes: tuple[str, ...]
    variables: frozenset[str]
    columns: Mapping[str, bool]
    unfenced: frozenset[str]
    tags: frozenset[str]


@lru_cache(maxsize=512)
def _read(source: str) -> _TemplateFacts:
    tree = _environment(_texts({}), NO_KEY).parse(source)
    includes = tuple(name for name in meta.find_referenced_templates(tree) if name is not None)
    fences = [arg for one in tree.find_all(nodes.Filter) if one.name == "fenced" for arg in one.args]
    return _TemplateFacts(
        is_empty=not tree.body,
        lines={one.name: one.lineno for one in reversed([*tree.find_all(nodes.Name)])},
        includes=includes,
        variables=frozenset(meta.find_undeclared_variables(tree) - _named_outside_blocks(tree)),
        columns=MappingProxyType(PromptColumns.of(tree).needed),
        unfenced=frozenset(field for field in JUDGED if _puts_out(tree, field)),
        tags=frozenset(arg.value for arg in fences if isinstance(arg, nodes.Const) and isinstance(arg.value, str)),
    )


def _named_outside_blocks(tree: nodes.Template) -> set[str]:
    """What a template imports or sets for its blocks; Jinja takes each block for a template of its own."""
    if not any(tree.find_all(nodes.Block)):
        return set()
    named = {node.name for node in tree.body if isinstance(node, nodes.Macro)}
    for node in tree.body:
        match node:
            case nodes.FromImport():
                named |= {name if isinstance(name, str) else name[1] for name in node.names}
            case nodes.Import():
                named.add(node.target)
            case nodes.Assign() | nodes.AssignBlock():
                named |= _names_in(node.target)
            case _:
                pass
    return named


def _names_in(target: nodes.Node) -> set[str]:
    return {name.name for name in (target, *target.find_all(nodes.Name)) if isinstance(name, nodes.Name)}


def _puts_out(node: nodes.Node, field: str) -> bool:
    if isinstance(node, _ELSEWHERE):
        return False
    if isinstance(node, nodes.Output):
        return any(_shows(child, field) for child in node.nodes)
    if isinstance(node, nodes.For) and _shows(node.iter, field):
        items = _names_in(node.target)
        if any(_puts_out(child, item) for child in node.body for item in items):
            return True
    return any(_puts_out(child, field) for child in node.iter_child_nodes())


def _shows(node: nodes.Node, field: str) -> bool:
    """Whether the value of an expression contains the field's text; a macro's arguments are not followed."""
    match node:
        case nodes.Name():
            return node.name == field
        case nodes.Filter(name=name) if name in _HARMLESS:
            return False
        case nodes.Compare() | nodes.Test() | nodes.Not():
            return False
        case nodes.CondExpr():
            return any(_shows(side, field) for side in (node.expr1, node.expr2) if side)
        case nodes.Call():
            return _shows(node.node, field)
        case _:
            return any(_shows(child, field) for child in node.iter_child_nodes())


def _uncompiled(error: Exception) -> str:
    if isinstance(error, ValueError):
        return "a number in it has too many digits"
    return f"its blocks or expressions are nested too deeply ({error})"


__all__ = ["PromptTemplate", "Prompts", "fenced", "messages", "render"]
