"""Which addresses belong to a connection's networks, in every form that a system takes for an address."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from evalflow.calls.networks import ForbiddenAddressError, Networks

PRIVATE = (
    "127.0.0.1 127.1 2130706433 0177.0.0.1 017700000001 0x7f.1 0x7f000001 0 0.0.0.0 10.1.2.3 172.16.0.1 192.168.1.1 "
    "100.64.0.1 100.100.100.200 169.254.169.254 168.63.129.16 192.0.0.192 192.88.99.1 198.18.0.1 203.0.113.9 224.0.0.1 "
    "240.0.0.1 255.255.255.255 :: ::1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:a9fe:a9fe ::ffff:0:127.0.0.1 64:ff9b::127.0.0.1 "
    "64:ff9b::a9fe:a9fe 64:ff9b:1::808:808 2002:7f00:1::1 2002:808:808::1 2001:0:4136:e378:8000:63bf:80ff:fffe "
    "2001:db8::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%1 fec0::1 ff02::1"
)


def allows(networks: Networks, host: str) -> bool:
    try:
        networks.expect(host)
    except ForbiddenAddressError:
        return False
    return True


def test_what_is_not_globally_routable_is_not_public() -> None:
    public = Networks.of(["public"])
    assert [host for host in PRIVATE.split() if allows(public, host)] == []
    routable = ["8.8.8.8", "134744072", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2606:4700::1111"]
    assert [host for host in routable if not allows(public, host)] == []


@pytest.mark.parametrize(
    ("networks", "inside", "outside"),
    [
        ("127.0.0.1/32", "127.1 0x7f000001 ::ffff:127.0.0.1 64:ff9b::127.0.0.1", "127.0.0.2 ::1 0.0.0.0 8.8.8.8"),
        ("10.0.0.0/8 fd12::/16", "10.9.9.9 ::ffff:10.0.0.1 fd12::7", "11.0.0.1 fd13::1 2002:a00:1::1"),
        ("public 192.168.7.0/24", "9.9.9.9 192.168.7.1", "192.168.8.1 127.0.0.1"),
        ("0.0.0.0/0", "127.0.0.1 169.254.169.254 ::ffff:1.2.3.4", "::1 2606:4700::1111"),
        ("2002::/16", "", "2002:7f00:1::1"),
        ("2002::/16 127.0.0.0/8", "2002:7f00:1::1", "2002:a00:1::1"),
    ],
)
def test_networks_are_those_that_are_named(networks: str, inside: str, outside: str) -> None:
    named = Networks.of(networks.split())
    assert [host for host in inside.split() if not allows(named, host)] == []
    assert [host for host in outside.split() if allows(named, host)] == []


def test_a_name_is_no_address_and_never_resolved() -> None:
    assert not allows(Networks.of(["public", "127.0.0.0/8"]), "localhost")


@pytest.mark.parametrize("word", ["Public", "10.0.0.1/8", "localhost", "", "10/33", "::ffff:10.0.0.0/104"])
def test_other_words_are_refused(word: str) -> None:
    with pytest.raises(ValueError, match="network"):
        Networks.of(["public", word])
    with pytest.raises(ValueError, match="name a network"):
        Networks.of([])


def test_the_networks_are_said_with_the_address() -> None:
    networks = Networks.of(["10.0.0.0/8", "public"])
    with pytest.raises(ForbiddenAddressError, match=r"\(public, 10\.0\.0\.0/8\)") as caught:
        networks.expect("2130706433")
    assert caught.value.address == "127.0.0.1"
    assert networks.allow(ip_address("10.0.0.1"))
