"""Calls one function again and again in a process with limits. `limited` starts this file as a script.

stdin and stdout carry frames: the length of a JSON text in 8 bytes, then the text. The first request says which
function it is, and what it may use. The function and its libraries are imported before the limits are set, so that it
may be forbidden to open files. Every further request holds the function's arguments. A generator's items are sent as
they come.
"""

from __future__ import annotations

import importlib
import json
import os
import struct
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO, cast

LENGTH = struct.Struct(">Q")
_BATCH = 65_536  # characters of a generator's items that are sent together
_RETIRED = 256 * 1024**2
"""A process that has used more bytes of memory than this is replaced by a new one."""
_GRACE_S = 1  # CPU time on top of the limit, within which the caller ends a process by the clock


def encoded(value: Any) -> bytes:
    """A frame; lone surrogates are kept."""
    return _framed(_text(value))


def _framed(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return LENGTH.pack(len(data)) + data


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def decoded(text: bytes) -> Any:
    """The value of a frame's text."""
    return json.loads(text.decode("utf-8", "surrogatepass"))


def main() -> None:
    """Answer requests until stdin is closed."""
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output printed by a library is not a reply
    work = _read(requests)
    sys.path += [folder for folder in work["path"] if folder not in sys.path]
    try:
        module, _, name = work["function"].partition(":")
        function = getattr(importlib.import_module(module), name)
        for needed in work["imports"]:
            importlib.import_module(needed)
        _limit(work)
    except Exception as error:
        _write(replies, {"bug": f"{type(error).__name__}: {error}"})
    else:
        _write(replies, {"ready": True})
        most = max(_RETIRED, _peak())  # Linux hands the peak of the process that started this one on to it
        while (request := _read(requests)) is not None:
            _allow(request["seconds"])
            for frame in _answered(function, request["payload"], work["output"], most):
                replies.write(frame)
                replies.flush()
    os._exit(0)  # DuckDB's threads may abort the process when the interpreter ends


def _read(requests: BinaryIO) -> Any:
    """The next request; None at the end."""
    header = requests.read(LENGTH.size)
    return decoded(requests.read(LENGTH.unpack(header)[0])) if len(header) == LENGTH.size else None


def _write(replies: BinaryIO, value: Any) -> None:
    replies.write(encoded(value))
    replies.flush()


def _limit(work: Mapping[str, Any]) -> None:
    with suppress(AttributeError, OSError):
        os.nice(work["niceness"])
    with suppress(ImportError):
        import resource

        limits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0, "RLIMIT_NOFILE": work["files"], "RLIMIT_AS": work["memory"]}
        if not work["threads"]:
            limits["RLIMIT_NPROC"] = 0  # counts threads too
        for name, most in limits.items():
            with suppress(AttributeError, ValueError, OSError):
                resource.setrlimit(getattr(resource, name), (most, most))


def _allow(seconds: float) -> None:
    """Allow so much CPU time from now on, and the files that the work may open."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        most = int(used.ru_utime + used.ru_stime + seconds) + 1 + _GRACE_S
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


def forbid_files() -> None:
    """Forbid opening files until the next request; open ones stay open."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def _answered(function: Callable[..., Any], payload: Mapping[str, Any], output: int, most: int) -> Iterator[bytes]:
    """The frames of a reply, the last of which says how it ended; after `most` bytes of memory, that it is the last."""
    ended: dict[str, Any] = {"ended": True}
    try:
        returned = function(**payload)
        is_stream = isinstance(returned, Generator)
        pieces = _batches(cast("Generator[Any]", returned)) if is_stream else [[_text(returned)]]
        for texts in pieces:
            frame = _framed(f'{{"items": [{", ".join(texts)}]}}')
            if len(frame) > output:
                ended = {"limit": "output"}
                break
            yield frame
    except ValueError as error:
        ended = {"fault": str(error)}
    except MemoryError:
        ended = {"limit": "memory", "last": True}
    except RecursionError:
        ended = {"limit": "depth"}
    except Exception as error:
        ended = {"bug": f"{type(error).__name__}: {error}"}
    yield encoded(ended if _peak() <= most else {**ended, "last": True})


def _batches(items: Generator[Any]) -> Iterator[list[str]]:
    texts: list[str] = []
    size = 0
    try:
        for item in items:
            texts.append(_text(item))
            size += len(texts[-1])
            if size > _BATCH:
                yield texts
                texts, size = [], 0
    except Exception as error:
        yield texts
        raise error
    yield texts


def _peak() -> int:
    """Return this process's peak memory in bytes; 0 if unknown."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main()
