"""S3 to test with: moto's server, on a port that the system chooses."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import IO
from urllib.request import Request, urlopen

BUCKET = "bucket"


@contextmanager
def serving_s3() -> Generator[Mapping[str, str]]:
    """Serve an empty bucket; gives the environment with its address and credentials."""
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            url = _address(server.stderr)
            urlopen(Request(f"{url}/{BUCKET}", method="PUT"), timeout=60).close()
            yield {
                "AWS_ENDPOINT_URL": url,
                "AWS_ACCESS_KEY_ID": "key",
                "AWS_SECRET_ACCESS_KEY": "secret-7Q",
                "AWS_REGION": "us-east-1",
            }
        finally:
            server.terminate()


def _address(log: IO[str]) -> str:
    for line in log:
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            return found[0]
    raise AssertionError("the server did not begin")
