"""The networks that a connection may lead to, checked on the address that each socket is opened to."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
AddressInfo = tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int]]
"""What a name resolves to, as `socket.getaddrinfo` gives it."""

PUBLIC = "public"
_NAT64 = IPv6Network("64:ff9b::/96")
_UNICAST = IPv6Network("2000::/3")
"""All that is assigned of IPv6's global unicast addresses."""
_NOT_PUBLIC = tuple(map(ip_network, ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "2002::/16", "3fff::/20")))
"""What is not public beyond `is_global`, which is short of some in older Pythons: the services of Azure and Oracle for
their own machines, relays, tunnels and examples."""


class ForbiddenAddressError(OSError):
    """A name leads out of its networks. All such errors of a connect read alike.

    A client that has tried several addresses in vain raises one of their errors if all read alike, else a summary.
    """

    def __init__(self, address: str, networks: Networks) -> None:
        self.address = address
        super().__init__(f"outside of the connection's networks ({', '.join(networks.words)})")


@dataclass(frozen=True, slots=True)
class Networks:
    """Networks, for a client that opens connections."""

    public: bool  # whether every globally routable address belongs to them
    ranges: tuple[IPv4Network | IPv6Network, ...]

    @classmethod
    def of(cls, words: Iterable[str]) -> Networks:
        """Read `public` and CIDRs; ValueError for the first word that is neither, and for none."""
        public, ranges = False, list[IPv4Network | IPv6Network]()
        for word in words:
            if word == PUBLIC:
                public = True
                continue
            try:
                found = ip_network(word)
            except ValueError:
                raise ValueError(f"{word!r} is neither a network, such as 10.0.0.0/8, nor the word {PUBLIC}") from None
            if isinstance(found, IPv6Network) and found.network_address.ipv4_mapped:
                raise ValueError(f"{word!r} is a network of IPv4: write it as one")
            ranges.append(found)
        if not public and not ranges:
            raise ValueError(f"name a network: {PUBLIC}, or such as 10.0.0.0/8")
        return cls(public, tuple(ranges))

    @property
    def words(self) -> list[str]:
        return [*([PUBLIC] if self.public else []), *map(str, self.ranges)]

    def allow(self, address: Address) -> bool:
        """Whether an address belongs to the networks, and every address that it stands for."""
        return all(self._have(one) for one in _reached(address))

    def expect(self, host: str) -> None:
        """ForbiddenAddressError unless a host is an allowed address, in any form that the system takes for one."""
        address = _numeric(host)
        if address is None or not self.allow(address):
            raise ForbiddenAddressError(str(address or host), self)

    def open(self, info: AddressInfo) -> socket.socket:
        """A new socket for a connect to an address; ForbiddenAddressError if it is not allowed."""
        family, kind, protocol, _, place = info
        self.expect(place[0])
        return socket.socket(family, kind, protocol)

    def _have(self, address: Address) -> bool:
        return (self.public and _is_public(address)) or any(address in network for network in self.ranges)


def _reached(address: Address) -> tuple[Address, ...]:
    """Where packets to an address go. A mapped or translated address stands for its IPv4 address alone."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped:
        return (address.ipv4_mapped,)
    if address in _NAT64:
        return (IPv4Address(int(address) & 0xFFFF_FFFF),)
    tunnel = (address.sixtofour,) if address.sixtofour else address.teredo or ()
    return (address, *tunnel)


def _is_public(address: Address) -> bool:
    if address.is_multicast or not address.is_global or any(address in network for network in _NOT_PUBLIC):
        return False
    return isinstance(address, IPv4Address) or address in _UNICAST


def _numeric(host: str) -> Address | None:
    """The address that the system reads in a host, such as 127.0.0.1 in 2130706433; None for a name."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        return ip_address(found[0][4][0])
    except (OSError, ValueError):
        return None
