"""The file `.env` of the working directory."""

from __future__ import annotations

import codecs
import io
import logging
import sys
from pathlib import Path

from evalflow.errors import Problem, UserError


def load_env_file() -> None:
    """Set the variables in `.env` that are not already set; UserError if it cannot be read."""
    path = Path(".env")
    if not path.is_file():
        return
    from dotenv import load_dotenv
    from dotenv.parser import parse_stream

    try:
        content = path.read_bytes()
        # PowerShell's `>` writes UTF-16, and some editors a byte order mark before UTF-8.
        marked = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text = content.decode("utf-16" if marked else "utf-8-sig")
        for binding in parse_stream(io.StringIO(text)):
            if binding.error:
                line = f".env:{binding.original.line}"
                sys.stderr.write(f"note: {line}: no variable is set here; write NAME=VALUE, and close quotes\n")
        logging.getLogger("dotenv.main").setLevel(logging.ERROR)  # it logs the same without a file name
        load_dotenv(stream=io.StringIO(text))
    except OSError as error:
        raise UserError(Problem(f"it cannot be read: {error.strerror}", ".env", "let your account read it")) from None
    except ValueError:  # not UTF-8, or a value with zero bytes
        raise UserError(Problem("it is not text in UTF-8 or UTF-16", ".env", "save it as UTF-8")) from None
