"""Where the application answers: on this machine only."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

from evalflow.errors import Problem, UserError

LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Address:
    """A loopback address with its port.

    Attributes:
        host: An IP address, without brackets.
        port: 0 stands for any free one until the socket is bound.
    """

    host: str
    port: int

    @property
    def url(self) -> str:
        """What a browser is pointed at, without a slash at the end."""
        return f"http://{self._bracketed}:{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """Values of the Host header that mean this server; any other came by a name that somebody else controls."""
        names = {*LOCAL_NAMES, self._bracketed}
        with_port = {f"{name}:{self.port}" for name in names}
        return frozenset(with_port | names if self.port == 80 else with_port)

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def loopback(host: str, port: int) -> Address:
    """The address to bind.

    Args:
        host: `localhost` or a loopback IP address.
        port: 0 to 65535.

    Raises:
        UserError: It can be reached from elsewhere, or is no address.
    """
    try:
        ip = ipaddress.ip_address("127.0.0.1" if host.lower() == "localhost" else host.strip("[]"))
    except ValueError:
        ip = None
    if ip is None or not ip.is_loopback:
        what = f"{host!r} is not an address of this machine alone; the application has no users and no encryption"
        hint = (
            "leave --host out, or use 127.0.0.1; from elsewhere, through a tunnel: ssh -L 8000:127.0.0.1:8000 MACHINE"
        )
        raise UserError(Problem(what, "--host", hint))
    if not 0 <= port <= 65535:
        raise UserError(Problem(f"{port} is no port", "--port", "1 to 65535, or 0 for any free one"))
    return Address(str(ip), port)


def bind(address: Address) -> tuple[socket.socket, Address]:
    """Take the port, before anything else is started.

    Returns:
        A bound socket, and the address with the port that it has.

    Raises:
        UserError: The port is taken, or not allowed.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((address.host, address.port))
        sock.listen()
    except OSError as error:
        sock.close()
        hint = f"choose another: --port {address.port + 1}, or --port 0 for any free one"
        raise UserError(Problem(f"cannot listen on {address.url}: {error.strerror}", "--port", hint)) from None
    return sock, Address(address.host, sock.getsockname()[1])
