"""The scripts and styles of the pages, asked for over real HTTP."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from evalflow.addons.studio.web.static import ASSETS, KeptFiles, bundle
from tests.addons.studio.web.conftest import Server, served

LONG = "x" * 5000


@pytest.fixture(name="server")
def _server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "big.css").write_text(LONG)

    async def now(_: Request) -> Response:
        return PlainTextResponse(f"{LONG}{(tmp_path / 'big.css').exists()}")

    routes: list[Any] = [Route("/now", now), Mount("/files", StaticFiles(directory=tmp_path))]
    app = Starlette(routes=routes, middleware=[Middleware(KeptFiles, paths=["/files/"])])
    with served(lambda _: app) as server:
        yield server


def test_a_file_is_read_and_compressed_once(server: Server, tmp_path: Path) -> None:
    first = server.ask("GET", "/files/big.css", Accept_Encoding="gzip")
    (tmp_path / "big.css").unlink()
    again = server.ask("GET", "/files/big.css", Accept_Encoding="gzip, br")
    assert gzip.decompress(first.body).decode() == LONG
    assert (again.status, again.body, again.headers.items()) == (200, first.body, first.headers.items())
    assert (first.headers["Content-Encoding"], first.headers["Vary"]) == ("gzip", "Accept-Encoding")


def test_what_asks_for_something_else_is_passed_on(server: Server, tmp_path: Path) -> None:
    known = server.ask("GET", "/files/big.css", Accept_Encoding="gzip").headers["ETag"]
    assert server.ask("GET", "/files/big.css").body.decode() == LONG
    assert server.ask("GET", "/files/big.css", Accept_Encoding="gzip", If_None_Match=known).status == 304
    part = server.ask("GET", "/files/big.css", Accept_Encoding="gzip", Range="bytes=0-9")
    assert (part.status, part.body) == (206, LONG[:10].encode())
    assert server.ask("HEAD", "/files/big.css", Accept_Encoding="gzip").body == b""
    assert server.ask("GET", "/now").body.endswith(b"True")
    (tmp_path / "big.css").unlink()
    assert server.ask("GET", "/now", Accept_Encoding="gzip").body.endswith(b"False")


def test_a_missing_file_is_looked_for_again(server: Server, tmp_path: Path) -> None:
    assert server.ask("GET", "/files/late.css", Accept_Encoding="gzip").status == 404
    (tmp_path / "late.css").write_text(LONG)
    assert server.ask("GET", "/files/late.css", Accept_Encoding="gzip").status == 200


def test_styles_are_one_file_whose_path_tells_its_content() -> None:
    one, other = bundle(["theme", "parts"], "css"), bundle(["parts", "theme"], "css")
    assert one.path != other.path
    assert one.path == bundle(["theme", "parts"], "css").path
    with served(lambda _: Starlette(routes=[one])) as server:
        found = server.ask("GET", one.path)
    assert found.headers["Content-Type"] == "text/css; charset=utf-8"
    assert found.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    parts = [(ASSETS / f"{name}.css").read_text(encoding="utf-8") for name in ("theme", "parts")]
    assert found.body.decode() == "\n".join(parts)


def test_no_class_is_styled_anew_in_another_sheet() -> None:
    """All sheets are sent as one, so a later rule for the same selector changes pages that never meant it."""
    homes: dict[str, set[str]] = {}
    for sheet in set(ASSETS.glob("*.css")) - {ASSETS / "print.css"}:  # which is for paper alone
        rules = re.sub(r"/\*.*?\*/|@[^{]*\{", "", sheet.read_text(encoding="utf-8"), flags=re.DOTALL)
        for selectors in re.findall(r"([^{}]+)\{", rules):
            for selector in re.split(r",(?![^()]*\))", selectors):
                if re.search(r"\.(?!q-)[a-z]", selector):
                    homes.setdefault(selector.strip(), set()).add(sheet.name)
    assert homes
    assert {selector: sheets for selector, sheets in homes.items() if len(sheets) > 1} == {}
