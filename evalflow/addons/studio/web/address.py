"""Where the application listens, and how it is reached."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from evalflow.errors import Problem, UserError

if TYPE_CHECKING:
    from evalflow.addons.studio.web.security.oidc import OidcProvider
    from evalflow.addons.studio.web.security.proxy import UserHeader


LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class PublicMode:
    """How a server is reached by others than the person at its machine.

    Attributes:
        url: https://NAME, with a port if it is not 443, without a slash at the end.
        tls: The files of its certificate and key; None if a reverse proxy speaks TLS.
        proxies: The networks of the reverse proxies; empty with TLS of its own.
        provider: Where people sign in by OpenID Connect; None: nowhere.
        user_header: The header in which the proxies name who is signed in; None: they do not.
        metrics_from: The networks that may read /metrics without signing in.
        has_second_factor: Whether the proxies name only people who have used a second factor.
    """

    url: str
    tls: tuple[Path, Path] | None
    proxies: Sequence[str]
    provider: OidcProvider | None = None
    user_header: UserHeader | None = None
    metrics_from: Sequence[str] = ()
    has_second_factor: bool = False


@dataclass(frozen=True, slots=True)
class Address:
    """An address with its port; of loopback, except in public mode.

    Attributes:
        host: An IP address, without brackets.
        port: 0 until the socket is bound to a free one.
    """

    host: str
    port: int
    public: PublicMode | None = None

    @property
    def url(self) -> str:
        """The URL for browsers, without a slash at the end."""
        return self.public.url if self.public else self.bound_url

    @property
    def bound_url(self) -> str:
        """The URL of the socket."""
        tls = self.public is not None and self.public.tls is not None
        return f"{'https' if tls else 'http'}://{self._bracketed}:{self.port}"

    @property
    def listens(self) -> str:
        """Where the socket listens, for people."""
        ip = ipaddress.ip_address(self.host)
        if ip.is_unspecified:
            return f"all addresses of this machine, port {self.port}"
        who = "this machine only" if ip.is_loopback else "this address only"
        return f"{self.bound_url}, {who}"

    @property
    def scheme(self) -> str:
        """Of the URL for browsers."""
        return self.url.partition(":")[0]

    @property
    def hosts(self) -> frozenset[str]:
        """Values of the Host header that name this server; other names may be controlled by an attacker."""
        if self.public:
            return frozenset({self.url.partition("://")[2]})
        names = {*LOCAL_NAMES, self._bracketed}
        with_port = {f"{name}:{self.port}" for name in names}
        return frozenset(with_port | names if self.port == 80 else with_port)

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def loopback(host: str, port: int) -> Address:
    """The address to bind; one that other machines can reach is refused."""
    try:
        ip = ipaddress.ip_address("127.0.0.1" if host.lower() == "localhost" else host.strip("[]"))
    except ValueError:
        ip = None
    if ip is None or not ip.is_loopback:
        what = f"{host!r} is not an address of this machine alone; without --public there are no accounts"
        hint = (
            "leave --host out, or use 127.0.0.1; from elsewhere, through a tunnel: ssh -L 8000:127.0.0.1:8000 MACHINE; "
            "for several people: --public https://NAME"
        )
        raise UserError(Problem(what, "--host", hint))
    if not 0 <= port <= 65535:
        raise UserError(_wrong_port(port))
    return Address(str(ip), port)


def public_address(
    url: str,
    host: str | None,
    port: int | None,
    tls: Sequence[str],
    proxies: Sequence[str],
    metrics_from: Sequence[str] = (),
) -> Address:
    """The address of a public server. `tls`: the files of certificate and key, or nothing.

    With them it listens on all addresses of the machine and on the port of `url`, else behind a proxy on loopback and
    port 8000, if `host` and `port` say nothing.

    Raises:
        UserError: Every setting that is missing or wrong.
    """
    problems: list[Problem] = []
    parts = urlsplit(url)
    name = (parts.hostname or "").rstrip(".")
    if (
        parts.scheme != "https"
        or not name
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
        or "@" in url
    ):
        problems.append(
            Problem(f"{url!r} is not the address of a server", "--public", "such as https://evalflow.example")
        )
    if not tls and not proxies:
        hint = "--tls-cert FILE --tls-key FILE, or --proxy NETWORK of the reverse proxy that speaks TLS"
        problems.append(Problem("people would sign in without encryption", "--public", hint))
    if tls and proxies:
        problems.append(Problem("a proxy and TLS files exclude each other", "--proxy", "leave out one of them"))
    problems += [fault for network in proxies if (fault := _wrong_network(network, "--proxy"))]
    problems += [fault for network in metrics_from if (fault := _wrong_network(network, "--metrics-from"))]
    problems += _wrong_files(tls)
    host = host or ("0.0.0.0" if tls else "127.0.0.1")  # noqa: S104 - meant for other machines
    try:
        own_port = parts.port or 443
    except ValueError as error:
        own_port = 443
        problems.append(Problem(f"{url!r}: {error}", "--public", "such as https://evalflow.example"))
    port = port if port is not None else own_port if tls else 8000
    try:
        ip = ipaddress.ip_address("127.0.0.1" if host.lower() == "localhost" else host.strip("[]"))
    except ValueError:
        ip = None
        problems.append(Problem(f"{host!r} is not an IP address", "--host", "such as 0.0.0.0 for all of this machine"))
    if not 0 <= port <= 65535:
        problems.append(_wrong_port(port))
    if problems or ip is None:
        raise UserError(problems)
    given = (Path(tls[0]), Path(tls[1])) if tls else None
    public = PublicMode(f"https://{parts.netloc.lower()}", given, tuple(proxies), metrics_from=tuple(metrics_from))
    return Address(str(ip), port, public)


def _wrong_network(network: str, option: str) -> Problem | None:
    try:
        ipaddress.ip_network(network)
    except ValueError as error:
        return Problem(f"{network!r} is not a network: {error}", option, "such as 10.0.0.0/8, or 127.0.0.1")
    return None


def _wrong_files(tls: Sequence[str]) -> list[Problem]:
    """Why certificate and key cannot be used."""
    if not tls:
        return []
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*tls)
    except (OSError, ssl.SSLError) as error:
        names = " and ".join(tls)
        return [Problem(f"{names} cannot be used: {error}", "--tls-cert", "PEM files of a certificate and its key")]
    return []


def bind(address: Address) -> tuple[socket.socket, Address]:
    """Bind the port, before anything else starts; returns the socket, and the address with its actual port."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((address.host, address.port))
        sock.listen()
    except OSError as error:
        sock.close()
        hint = f"choose another: --port {address.port + 1}, or --port 0 for any free one"
        raise UserError(Problem(f"cannot listen on {address.bound_url}: {error.strerror}", "--port", hint)) from None
    return sock, replace(address, port=sock.getsockname()[1])


def _wrong_port(port: int) -> Problem:
    return Problem(f"{port} is not a port", "--port", "1 to 65535, or 0 for any free one")
