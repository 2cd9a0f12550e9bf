"""A place for one file: it is dropped there, or chosen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui
from nicegui.events import UploadEventArguments

from evalflow.web.application import LARGEST
from evalflow.web.pages.parts import text

ENDINGS = (".csv", ".tsv", ".jsonl", ".json")
_LARGEST = LARGEST["/"] - 64 * 1024
"""Bytes of a file; what surrounds it in the request counts, too."""
_LIMIT = f"{LARGEST['/'] >> 20} MB"
_SLOT = """
<div class="drop">
  <q-icon name="upload_file" aria-hidden="true"></q-icon>
  <q-btn class="button" unelevated no-caps :ripple="false" label="Choose a file" @click="props.pickFiles">
    <q-uploader-add-trigger></q-uploader-add-trigger>
  </q-btn>
  <span class="muted small">or drop it here</span>
</div>
"""


def dropping(on_upload: Callable[[UploadEventArguments], Awaitable[None]]) -> None:
    """Build it; a file that is too large, or of another kind, is refused before it is sent."""

    def refused(event: Any) -> None:
        name, size = event.args
        if size > _LARGEST:
            _say(
                said,
                f"{name} has {size / 2**20:,.0f} MB; at most {_LIMIT} can be uploaded. Split it, and upload the parts.",
            )
        else:
            how = " Save the sheet as “CSV UTF-8”, or copy its cells and paste them." if _is_sheet(name) else ""
            _say(said, f"{name} is of another kind; expected one of {', '.join(ENDINGS)}.{how}")

    upload = ui.upload(on_upload=on_upload, max_file_size=_LARGEST, max_files=1, auto_upload=True)
    upload.props(f"accept={','.join(ENDINGS)} flat").classes("dropping")
    upload.add_slot("header", _SLOT)
    upload.add_slot("list", "<div></div>")
    upload.on("rejected", refused, js_handler="(found) => emit([found[0].file.name, found[0].file.size])")
    upload.on("failed", lambda: _say(said, f"It could not be sent; at most {_LIMIT} can be uploaded."), args=[])
    text(f"At most {_LIMIT}; {', '.join(ENDINGS)}", classes="muted small")
    said = ui.element("div").props("aria-live=assertive")


def _is_sheet(name: str) -> bool:
    return name.lower().endswith((".xlsx", ".xls", ".ods", ".numbers"))


def _say(place: ui.element, what: str) -> None:
    place.clear()
    with place:
        text(what, classes="fault")
