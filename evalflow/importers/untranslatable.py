"""Why a part of another tool's file has no counterpart."""

from __future__ import annotations


class Untranslatable(Exception):
    """It has no counterpart; `reason` says why, `hint` what to do instead."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
