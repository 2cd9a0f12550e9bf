"""The file `.env` of the working directory."""

from __future__ import annotations

import codecs
import io
from pathlib import Path

from evalflow.errors import Problem, UserError


def load_env_file() -> None:
    """Set the variables in `.env` that are not already set; UserError if it cannot be read."""
    path = Path(".env")
    if not path.is_file():
        return
    from dotenv import load_dotenv

    try:
        content = path.read_bytes()
        # PowerShell's `>` writes UTF-16, and some editors a byte order mark before UTF-8.
        marked = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        load_dotenv(stream=io.StringIO(content.decode("utf-16" if marked else "utf-8-sig")))
    except OSError as error:
        raise UserError(Problem(f"it cannot be read: {error.strerror}", ".env", "let your account read it")) from None
    except ValueError:  # not UTF-8, or a value with zero bytes
        raise UserError(Problem("it is no text in UTF-8 or UTF-16", ".env", "save it as UTF-8")) from None
