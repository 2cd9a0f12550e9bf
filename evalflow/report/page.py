"""Write HTML pages from templates, with inline style and script, and a policy that blocks everything else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
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

    Args:
        path: The page; replaced.
        template: A file of templates/.
        context: Its variables. Iterables of markup are streamed.
        styles: Files of templates/ that go into the page, in order.
        scripts: Likewise.
    """
    style, script = _assets(styles, scripts)
    policy = content_policy(styles, scripts)
    with replacing(path) as file:
        page = environment().get_template(template)
        file.writelines(page.generate(context, style=style, script=script, policy=policy))


def content_policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """The content security policy of a page: only its own style and script, by their digests.

    Args:
        styles: As for `write_page`.
        scripts: Likewise.
    """
    sources = zip(("style", "script"), _assets(styles, scripts), strict=True)
    allowed = [f"{kind}-src '{_digest(text)}'" for kind, text in sources if text]
    return "; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"])


def environment() -> Environment:
    """The templates' environment: everything is escaped, and an undefined variable is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "number": wording.number,
        "signed": wording.signed,
        "p_value": wording.p_value,
        "percent": wording.percent,
        "cost": wording.cost,
        "method": wording.method,
    }
    made.filters = {**made.filters, **filters}  # pyright: ignore[reportUnknownMemberType] - untyped in Jinja
    return made


def _joined(names: Sequence[str]) -> str:
    return "".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in names)


def _assets(styles: Sequence[str], scripts: Sequence[str]) -> tuple[str, str]:
    """The style and the script of a page."""
    script = _joined(scripts)
    return _joined(styles), f'"use strict";(() => {{\n{script}}})();' if script else ""


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
