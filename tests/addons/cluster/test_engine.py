"""What is wrong with a cluster's address, said before anything is sent."""

from __future__ import annotations

import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from importlib.util import find_spec

import pytest

from evalflow.addons.cluster import engine
from tests.cli.conftest import Program
from tests.loopback import LoopbackServer

RUN = ("dataset=rag", "metric=exact_match", "limit=1", "engine=ray")


@pytest.fixture
def refused(program: Program) -> Callable[..., str]:
    """What is said to a run that is refused."""

    def say(*words: str) -> str:
        done = program(*RUN, *words)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
        assert not list((program.folder / "outputs").glob("runs/*/run.json"))
        return done.stderr

    return say


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("engine.address=ray://127.0.0.1:10001", "with the Ray client a run is lost if the connection fails"),
        ("engine.address=127.0.0.1", "write HOST:PORT"),
        ("engine.actors=0", "engine.actors: must be greater than or equal to 1"),
        ("engine.cpus=0", "engine.cpus: must be greater than 0"),
        ("engine.shard=0", "engine.shard: must be greater than or equal to 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(refused: Callable[..., str], word: str, said: str) -> None:
    assert said in refused(word)


def test_the_extra_is_named_if_it_is_missing(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "find_spec", lambda _: None)
    said = refused()
    assert "the package ray, which is not installed" in said
    assert "pip install" in said


@pytest.mark.skipif(find_spec("ray") is None, reason="NO RAY: no address of a cluster is tried")
def test_an_address_without_a_cluster_is_refused_at_once(refused: Callable[..., str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert "nothing answers at" in refused(f"engine.address=127.0.0.1:{free.getsockname()[1]}")
    with LoopbackServer(BaseHTTPRequestHandler) as server:
        assert "is not a head of Ray" in refused(f"engine.address={server.url.removeprefix('http://')}")


@pytest.mark.skipif(find_spec("ray") is None, reason="NO RAY: no address of a cluster is tried")
def test_an_address_that_stays_silent_is_given_up(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_REACH_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert "nothing answers at" in refused(f"engine.address=127.0.0.1:{silent.getsockname()[1]}")
