"""Globs over names, whatever is done to the names."""

import fnmatch
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from proxy.settings.tenants import NameRules, ToolRules
from proxy.tenancy.mcp_names import McpServers, read_address
from proxy.tenancy.names import Names, is_plain
from proxy.tenancy.tool_rules import ToolPolicy

LETTERS = st.text("abcP-5./:", min_size=1, max_size=8)
GLOBS = st.text("abcP-5.*?/", min_size=1, max_size=6)
UNSEEN = st.sampled_from(list(" \t\n\0\u00a0\u200b\u200d\u2028\u202e\ufeff\ue000\U000e0061\ud800"))


@given(st.lists(GLOBS, max_size=3), st.lists(GLOBS, max_size=3), LETTERS)
def test_a_name_is_allowed_as_its_globs_say(allow: list[str], deny: list[str], name: str) -> None:
    allowed = any(fnmatch.fnmatchcase(name, glob) for glob in allow)
    denied = any(fnmatch.fnmatchcase(name.lower(), glob.lower()) for glob in deny)
    names = Names(NameRules(tuple(allow), tuple(deny)))
    assert names.allow(name) is (allowed and not denied)
    assert names.allow(name) is names.allow(name)


@given(LETTERS, st.data())
def test_no_case_gets_around_a_denied_name(name: str, data: st.DataObject) -> None:
    flips = data.draw(st.lists(st.booleans(), min_size=len(name), max_size=len(name)))
    other = "".join(letter.swapcase() if flip else letter for letter, flip in zip(name, flips, strict=True))
    assert not Names(NameRules(None, (name,))).allow(other)


@given(LETTERS, UNSEEN, st.integers(0, 8))
def test_what_can_not_be_seen_makes_another_name(name: str, unseen: str, at: int) -> None:
    assert is_plain(name)
    assert not is_plain(name[:at] + unseen + name[at:])


@given(st.text(min_size=1, max_size=6))
def test_a_plain_name_has_no_double(name: str) -> None:
    if is_plain(name):
        assert unicodedata.normalize("NFKC", name) == name == name.strip()


def test_thousands_of_names_are_not_kept() -> None:
    names = Names(NameRules(("a*",)))
    assert [names.allow(f"a{number}") for number in range(3000)] == [True] * 3000
    assert not names.allow("b")


PARTS = st.text("ab.:@/\\?#%2eE-[]", max_size=8)


@given(PARTS, PARTS, PARTS)
def test_no_address_leaves_its_host(before: str, between: str, behind: str) -> None:
    """Whatever is put around a host that is allowed, only that host is."""
    servers = McpServers(NameRules(("https://mcp.example.org/*",)))
    url = f"https://{before}mcp.example.org{between}/{behind}"
    if servers.allow(url):
        address = read_address(url)
        assert address is not None
        assert (address.host, address.port, address.scheme) == ("mcp.example.org", None, "https")
        assert url.removeprefix("https://").startswith("mcp.example.org")


@given(st.text("htps:/ab.c%2e?", max_size=20))
def test_an_address_is_read_the_same_again(url: str) -> None:
    address = read_address(url)
    if address is not None:
        assert read_address(str(address)) == address


def test_a_tenant_without_rules_has_nothing_to_look_at() -> None:
    assert ToolPolicy(ToolRules()).open
    assert not ToolPolicy(ToolRules(mcp_servers=NameRules(()))).open
