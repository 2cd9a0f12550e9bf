"""Write HTML pages from templates, with inline style and script, and a policy that blocks everything else."""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.files import replacing
from evalflow.report import wording

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"


def write_page(
    path: Path, template: str, context: Mapping[str, Any], *, styles: Sequence[str], scripts: Sequence[str]
) -> None:
    """Render a template in chunks into a file that is replaced atomically.

    Styles and scripts are files of templates/, in order. Iterables of markup in the context are streamed.
    """
    style, script = _assets(styles, scripts)
    policy = content_policy(styles, scripts)
    with replacing(path) as file:
        page = environment().get_template(template)
        file.writelines(page.generate(context, style=style, script=script, policy=policy))


def content_policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """The content security policy of a page: only its own style and script, by their digests."""
    sources = zip(("style", "script"), _assets(styles, scripts), strict=True)
    allowed = [f"{kind}-src '{_digest(text)}'" for kind, text in sources if text]
    return "; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"])


@cache
def environment() -> Environment:
    """The templates' environment: everything is escaped, and an undefined variable is an error."""
    from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
    from jinja2.bccache import Bucket

    class Compiled(FileSystemBytecodeCache):
        """Caches compiled templates next to their source; without effect in a read-only folder."""

        def dump_bytecode(self, bucket: Bucket) -> None:
            if sys.dont_write_bytecode:
                return
            with suppress(OSError):
                Path(self.directory).mkdir(exist_ok=True)
                super().dump_bytecode(bucket)

    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=Compiled(str(_TEMPLATES / "__pycache__")),
    )
    filters = {name: getattr(wording, name) for name in ("number", "signed", "p_value", "percent", "cost", "method")}
    untyped: Any = made
    untyped.filters |= filters
    untyped.globals |= {"interval": wording.interval, "signed": wording.signed}
    return made


def _joined(names: Sequence[str]) -> str:
    return "".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in names)


def _assets(styles: Sequence[str], scripts: Sequence[str]) -> tuple[str, str]:
    """The style and the script of a page."""
    script = _joined(scripts)
    return _joined(styles), f'"use strict";(() => {{\n{script}}})();' if script else ""


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
