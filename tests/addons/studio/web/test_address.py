import pytest

from evalflow.addons.studio.web.address import bind, loopback, public_address
from evalflow.errors import UserError


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
    with pytest.raises(UserError, match="not a port"):
        loopback("localhost", port)


def test_a_port_that_is_taken_says_so() -> None:
    sock, address = bind(loopback("localhost", 0))
    with sock:
        assert address.port > 0
        with pytest.raises(UserError, match=rf"cannot listen on {address.url}.*\n  hint: .*--port {address.port + 1}"):
            bind(address)


PROXY = "127.0.0.1"


@pytest.mark.parametrize(
    ("url", "host", "tls", "proxies", "key", "what"),
    [
        ("http://e.example", None, [], [PROXY], "--public", "not the address of a server"),
        ("https://e.example/below", None, [], [PROXY], "--public", "not the address of a server"),
        ("https://me@e.example", None, [], [PROXY], "--public", "not the address of a server"),
        ("https://e.example:99999", None, [], [PROXY], "--public", "out of range"),
        ("https://e.example", None, [], [], "--public", "without encryption"),
        ("https://e.example", None, [], ["10.0.0.1/8"], "--proxy", "has host bits set"),
        ("https://e.example", "e.example", [], [PROXY], "--host", "not an IP address"),
        ("https://e.example", None, ["none.pem", "none.key"], [], "--tls-cert", "cannot be used"),
        ("https://e.example", None, ["none.pem", "none.key"], [PROXY], "--proxy", "exclude each other"),
    ],
)
def test_a_setting_of_the_public_mode_that_is_wrong_is_named(
    url: str, host: str | None, tls: list[str], proxies: list[str], key: str, what: str
) -> None:
    with pytest.raises(UserError) as refused:
        public_address(url, host, None, tls, proxies)
    assert any(problem.where == key and what in problem.what for problem in refused.value.problems)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(UserError) as refused:
        public_address("http://e.example", "x", -1, [], ["none"])
    assert [problem.where for problem in refused.value.problems] == ["--public", "--proxy", "--host", "--port"]


def test_the_public_address_is_the_one_that_browsers_know() -> None:
    address = public_address("https://Evalflow.Example/", None, None, [], [PROXY])
    assert (address.url, address.bound_url) == ("https://evalflow.example", "http://127.0.0.1:8000")
    assert (address.scheme, address.hosts) == ("https", {"evalflow.example"})


@pytest.mark.parametrize(
    ("host", "told"),
    [
        (None, "http://127.0.0.1:8000, this machine only"),
        ("10.0.0.1", "http://10.0.0.1:8000, this address only"),
        ("0.0.0.0", "all addresses of this machine, port 8000"),
        ("::", "all addresses of this machine, port 8000"),
    ],
)
def test_a_public_server_says_where_it_listens(host: str | None, told: str) -> None:
    """Behind a proxy on this machine only, unless told otherwise."""
    assert public_address("https://e.example", host, None, [], ["127.0.0.1"]).listens == told
