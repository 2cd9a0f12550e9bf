"""The networks that a connection may reach, checked on the address of each socket."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
AddressInfo = tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int]]
"""A resolved address, as returned by `socket.getaddrinfo`."""

PUBLIC = "public"
_NAT64 = IPv6Network("64:ff9b::/96")
_UNICAST = IPv6Network("2000::/3")
"""The assigned part of IPv6's global unicast addresses."""
_NOT_PUBLIC = tuple(map(ip_network, ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "2002::/16", "3fff::/20")))
"""Addresses that are not public but that `is_global` accepts, in older Pythons at least: Azure's and Oracle's internal
services, relays, tunnels and examples."""


class ForbiddenAddressError(OSError):
    """A host name resolves outside the allowed networks. All such errors have the same message.

    If all addresses fail, clients raise one of the errors if their messages are equal, and otherwise a summary.
    """

    def __init__(self, address: str, networks: Networks) -> None:
        self.address = address
        super().__init__(f"outside of the connection's networks ({', '.join(networks.words)})")


@dataclass(frozen=True, slots=True)
class Networks:
    """Allowed networks, for a client that opens connections."""

    public: bool  # whether every globally routable address belongs to them
    ranges: tuple[IPv4Network | IPv6Network, ...]

    @classmethod
    def of(cls, words: Iterable[str]) -> Networks:
        """Parse `public` and CIDRs; ValueError for the first word that is neither, or without any."""
        public, ranges = False, list[IPv4Network | IPv6Network]()
        for word in words:
            if word == PUBLIC:
                public = True
                continue
            try:
                network = ip_network(word)
            except ValueError:
                raise ValueError(f"{word!r} is not a network, such as 10.0.0.0/8, or the word {PUBLIC}") from None
            if isinstance(network, IPv6Network) and network.network_address.ipv4_mapped:
                raise ValueError(f"{word!r} is a network of IPv4: write it as one")
            ranges.append(network)
        if not public and not ranges:
            raise ValueError(f"name a network: {PUBLIC}, or such as 10.0.0.0/8")
        return cls(public, tuple(ranges))

    @property
    def words(self) -> list[str]:
        return [*([PUBLIC] if self.public else []), *map(str, self.ranges)]

    def allow(self, address: Address) -> bool:
        """Return whether an address and all addresses mapped in it belong to the networks."""
        return all(self._have(one) for one in _reached(address))

    def expect(self, host: str) -> None:
        """Raise ForbiddenAddressError if a host is a forbidden numeric address, in any notation of the system."""
        address = _numeric(host)
        if address is None or not self.allow(address):
            raise ForbiddenAddressError(str(address or host), self)

    def open(self, info: AddressInfo) -> socket.socket:
        """Open a socket for a connection to an address; ForbiddenAddressError if it is not allowed."""
        family, kind, protocol, _, place = info
        self.expect(place[0])
        return socket.socket(family, kind, protocol)

    def _have(self, address: Address) -> bool:
        return (self.public and _is_public(address)) or any(address in network for network in self.ranges)


def _reached(address: Address) -> tuple[Address, ...]:
    """Return the real destination of an address: for mapped or translated addresses the IPv4 address."""
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
    """Return the address that the system reads in a host, e.g. 127.0.0.1 in 2130706433; None for a name."""
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        return ip_address(addresses[0][4][0])
    except (OSError, ValueError):
        return None
