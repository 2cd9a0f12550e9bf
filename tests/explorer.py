"""The cases of a report.html, which it keeps compressed."""

from __future__ import annotations

import base64
import re
import zlib

_BLOCK = re.compile(r'<script[^>]*class="block"[^>]*>([^<]*)</script>')


def cases_in(page: str) -> str:
    """The lines of all cases, as the page unpacks them."""
    return "".join(zlib.decompress(base64.b64decode(packed)).decode() for packed in _BLOCK.findall(page))
