import pytest

from evalflow.errors import UserError
from evalflow.web.serve import bind, loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.10", "::", "example.org", "10.0.0.1", ""])
def test_what_others_can_reach_is_refused(host: str) -> None:
    with pytest.raises(UserError, match="not an address of this machine alone"):
        loopback(host, 8000)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("localhost", "http://127.0.0.1:8000"),
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("127.0.0.2", "http://127.0.0.2:8000"),
        ("::1", "http://[::1]:8000"),
        ("[::1]", "http://[::1]:8000"),
    ],
)
def test_this_machine_has_several_names(host: str, url: str) -> None:
    address = loopback(host, 8000)
    assert address.url == url
    assert {"localhost:8000", "127.0.0.1:8000", "[::1]:8000"} <= address.hosts
    assert "localhost" not in address.hosts


def test_a_browser_leaves_out_the_port_of_http() -> None:
    assert "localhost" in loopback("localhost", 80).hosts


@pytest.mark.parametrize("port", [-1, 65536])
def test_no_port(port: int) -> None:
    with pytest.raises(UserError, match="no port"):
        loopback("localhost", port)


def test_a_port_that_is_taken_says_so() -> None:
    sock, address = bind(loopback("localhost", 0))
    with sock:
        assert address.port > 0
        with pytest.raises(UserError, match=rf"cannot listen on {address.url}.*\n  hint: .*--port {address.port + 1}"):
            bind(address)
