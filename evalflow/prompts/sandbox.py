"""Jinja's sandbox, with limits on a template's output and on its time.

Both are checked whenever a template outputs text or calls something. Work in between, such as one filter on one text,
is not limited, so templates of strangers are rendered in a limited process (see `prompts`).
"""

from __future__ import annotations

import math
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, MutableMapping
from traceback import walk_tb
from types import CodeType
from typing import Any, cast

from jinja2 import (
    BytecodeCache,
    Template,  # noqa: TID251 - its type; Prompts makes them
    TemplateError,
    TemplateSyntaxError,
    nodes,
    pass_context,
)
from jinja2.bccache import Bucket
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from evalflow.limited import deadline

CHARACTERS = 32_000_000
"""Maximum text of one rendering; the longest prompts of models take a few million."""
SECONDS = 10.0
"""Time limit of one rendering."""
_AUTOESCAPE = re.compile(r"\{%[-+]?\s*autoescape\s+(?!(?:true|false)\s*[-+]?%\})", re.IGNORECASE)
_UNLIMITED: Callable[[], None] = lambda: None  # noqa: E731


class Unrenderable(ValueError):
    """A template cannot be rendered; the message says why."""


def _place(error: Exception, template: Template) -> str:
    """Where a template's file failed, such as `, in line 3`; empty for a text in YAML."""
    if template.name is None or not template.name.endswith(".jinja"):
        return ""
    # Jinja has put the lines of templates into the traceback.
    lines = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    positions = [(file, line) for file, line in lines if file.endswith(".jinja")]
    if not positions:
        return ""
    file, line = positions[-1]
    return f", in line {line}" if file == template.filename else f", in line {line} of {file}"


@pass_context
def _in_time(context: Context, value: object) -> object:
    """Return a value to output, unless the time is over."""
    cast("Sandbox", context.environment).check_time()
    return value


@pass_context
def _not_evaluated(_: Context, *__: object, **___: object) -> None:
    """Replaces a filter or a test in a template that is only read: what needs the context is not a constant."""


class Codes(BytecodeCache):
    """The code of the latest templates by name, file and text: an environment compiles what no other one has.

    These environments have to be alike: the code depends on their options and on which filters want the context.
    """

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._codes: OrderedDict[tuple[str, str], CodeType] = OrderedDict()

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        if bucket.code is None:
            return
        if len(self._codes) >= self._most:
            self._codes.popitem(last=False)
        self._codes[bucket.key, bucket.checksum] = bucket.code


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of every template. It renders one template at a time."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})  # the compiler does not evaluate these

    def __init__(self, filters: Mapping[str, Callable[..., object]], **options: object) -> None:
        # Otherwise it would evaluate constant expressions when a template is read, without a limit: the optimizer does
        # everywhere, and the compiler in what is put out, unless `finalize` needs the context of a rendering.
        super().__init__(optimized=False, finalize=_in_time, **options)
        cast("dict[str, object]", self.filters).update(filters)  # pyright: ignore[reportUnknownMemberType]
        self.check_time = _UNLIMITED
        self.longest: float = math.inf
        """Characters of a template. Compiling takes time by its length, in which Python does nothing else."""
        self.part_mark = secrets.token_hex(16)  # begins a part of a prompt; it is never shown, so no text contains it
        self._reader = self.overlay()
        self._reader.filters = dict.fromkeys(cast("Any", self).filters, _not_evaluated)
        self._reader.tests = dict.fromkeys(cast("Any", self).tests, _not_evaluated)

    def parse(self, source: str, name: str | None = None, filename: str | None = None) -> nodes.Template:
        """A tree for `jinja2.meta`, which would evaluate constant filters and tests too."""
        tree = super().parse(source, name, filename)
        tree.set_environment(self._reader)
        return tree

    def preprocess(self, source: str, name: str | None = None, filename: str | None = None) -> str:
        """Refuse a template that is too long, and an expression that the compiler would evaluate."""
        if len(source) > self.longest:
            what = f"the template has {len(source):,} characters, of at most {self.longest:,}; show data by variables"
            raise TemplateSyntaxError(what, 1, name, filename)
        if match := _AUTOESCAPE.search(source):
            line = source.count("\n", 0, match.start()) + 1
            raise TemplateSyntaxError("autoescape needs true or false", line, name, filename)
        return super().preprocess(source, name, filename)

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """Return a template's global names as a plain dictionary, since each rendering copies them several times."""
        return dict(super().make_globals(d))

    def call(__self, __context: Context, __obj: object, *args: object, **kwargs: object) -> object:
        __self.check_time()
        return super().call(__context, __obj, *args, **kwargs)

    def text_of(self, template: Template, variables: Mapping[str, object]) -> str:
        """Render a template; Unrenderable if it fails in any way, jinja2.UndefinedError included."""
        self.check_time = deadline(SECONDS, "it")
        pieces: list[str] = []
        left = CHARACTERS
        try:
            for piece in template.generate(variables):
                left -= len(piece)
                if left < 0:
                    raise SecurityError(f"it makes more than {CHARACTERS:,} characters of text")
                pieces.append(piece)
            return "".join(pieces)
        except TemplateError as error:
            raise Unrenderable(f"{error.message}{_place(error, template)}") from error
        except MemoryError:
            raise Unrenderable("it needs more memory than is available") from None
        except RecursionError:
            raise Unrenderable("it includes or calls itself without end") from None
        except Exception as error:  # filters and methods may raise anything
            raise Unrenderable(f"{error}{_place(error, template)}") from error
        finally:
            self.check_time = _UNLIMITED
