"""An address is believed only as far as those who tell it are trusted."""

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from proxy.settings.tenants import Network
from proxy.tenancy.addresses import client_ip, in_networks

TRUSTED: tuple[Network, ...] = (ip_network("10.0.0.0/8"), ip_network("2001:db8::/32"))


def forwarded(*lines: str) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict([("X-Forwarded-For", line) for line in lines]))


@pytest.mark.parametrize(
    ("peer", "lines", "client"),
    [
        # Nobody's word is taken but a trusted proxy's.
        ("203.0.113.9", [], "203.0.113.9"),
        ("203.0.113.9", ["10.1.1.1"], "203.0.113.9"),
        ("203.0.113.9", ["198.51.100.1, 10.1.1.1"], "203.0.113.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        # What the client wrote itself stands to the left of what the proxy knows.
        ("10.0.0.1", ["10.9.9.9, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["192.0.2.7, 198.51.100.1, 10.0.0.2, 10.0.0.3"], "198.51.100.1"),
        ("10.0.0.1", ["192.0.2.7", "198.51.100.1", "10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["10.0.0.2", "192.0.2.7, 198.51.100.1"], "198.51.100.1"),
        # All are ours: the first of them asks.
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        # Behind garbage nothing is believed.
        ("10.0.0.1", ["192.0.2.7, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["192.0.2.7, unknown, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["192.0.2.7, _hidden, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["192.0.2.7,"], "10.0.0.1"),
        ("10.0.0.1", ["192.0.2.7", ""], "10.0.0.1"),
        ("10.0.0.1", ["192.0.2.7, 010.0.0.2"], "10.0.0.1"),
        ("10.0.0.1", ["192.0.2.7, 10.0.0.2 10.0.0.3"], "10.0.0.1"),
        ("10.0.0.1", ["192.0.2.7, " + "1" * 5000], "10.0.0.1"),
        ("10.0.0.1", ["192.0.2.7" + ", 10.0.0.2" * 17], "10.0.0.2"),
        ("10.0.0.1", ["192.0.2.7" + ", 10.0.0.2" * 15], "192.0.2.7"),
        # Ports and brackets.
        ("10.0.0.1", ["198.51.100.1:4711"], "198.51.100.1"),
        ("10.0.0.1", ["[2001:DB9::1]:443"], "2001:db9::1"),
        ("10.0.0.1", ["[2001:db9::1]"], "2001:db9::1"),
        ("10.0.0.1", ["2001:db9:0:0::1"], "2001:db9::1"),
        ("10.0.0.1", ["198.51.100.1:x"], "10.0.0.1"),
        ("10.0.0.1", ["[198.51.100.1]"], "10.0.0.1"),
        ("10.0.0.1", ["[2001:db9::1]443"], "10.0.0.1"),
        ("10.0.0.1", ["[2001:db9::1"], "10.0.0.1"),
        # IPv4 in IPv6's clothes is IPv4, on either side.
        ("::ffff:203.0.113.9", [], "203.0.113.9"),
        ("::ffff:10.0.0.1", ["::ffff:10.0.0.2, 1.1.1.1"], "1.1.1.1"),
        ("10.0.0.1", ["192.0.2.7, ::ffff:198.51.100.1, [::ffff:0a00:2]:80"], "198.51.100.1"),
        ("2001:db8::1", ["198.51.100.1"], "198.51.100.1"),
        ("2001:db9::1", ["198.51.100.1"], "2001:db9::1"),
        ("fe80::1%eth0", ["198.51.100.1"], "fe80::1"),
        # A socket without an address.
        (None, ["198.51.100.1"], None),
        ("", ["198.51.100.1"], None),
    ],
)
def test_who_asks(peer: str | None, lines: list[str], client: str | None) -> None:
    assert client_ip(peer, forwarded(*lines), TRUSTED) == client


def test_without_trusted_proxies_the_header_means_nothing() -> None:
    assert client_ip("10.0.0.1", forwarded("198.51.100.1"), ()) == "10.0.0.1"


@given(st.lists(st.text(max_size=20) | st.sampled_from(["10.0.0.2", "1.1.1.1", "::1", "[::1]:1"]), max_size=8))
def test_what_stands_left_of_one_that_is_not_trusted_changes_nothing(entries: list[str]) -> None:
    spoofed = ",".join([*entries, "198.51.100.1", "10.0.0.2"])
    assert client_ip("10.0.0.1", forwarded(spoofed), TRUSTED) == "198.51.100.1"
    assert client_ip("10.0.0.1", forwarded(*entries, "198.51.100.1"), TRUSTED) == "198.51.100.1"


@pytest.mark.parametrize(
    ("ip", "inside"),
    [
        ("10.255.0.1", True),
        ("11.0.0.1", False),
        ("::ffff:10.0.0.1", True),
        ("2001:db8:1::2", True),
        ("2001:db9::", False),
        (None, False),
        ("", False),
        ("nonsense", False),
    ],
)
def test_in_networks(ip: str | None, inside: bool) -> None:
    assert in_networks(ip, TRUSTED) is inside


def test_no_network_has_anybody_in_it() -> None:
    assert not in_networks("10.0.0.1", ())
