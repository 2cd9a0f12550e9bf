"""S3 to test with: moto's server, on a port that the system chooses."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import IO
from urllib.request import Request, urlopen

BUCKET = "bucket"


@contextmanager
def serving_s3() -> Generator[Mapping[str, str]]:
    """Serve an empty bucket; gives the environment with its address and credentials."""
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with tempfile.TemporaryFile("a+") as log:  # no pipe: it would be full one day, and the server wait
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            url = _address(log)
            urlopen(Request(f"{url}/{BUCKET}", method="PUT"), timeout=60).close()
            yield {
                "AWS_ENDPOINT_URL": url,
                "AWS_ACCESS_KEY_ID": "key",
                "AWS_SECRET_ACCESS_KEY": "secret-7Q",
                "AWS_REGION": "us-east-1",
            }
        finally:
            server.terminate()
            server.wait(60)


def _address(log: IO[str]) -> str:
    """Where the server listens, once its log says so."""
    for _ in range(600):
        log.seek(0)
        if found := re.search(r"http://127\.0\.0\.1:\d+", log.read()):
            return found[0]
        time.sleep(0.1)
    raise AssertionError("the server did not begin")
