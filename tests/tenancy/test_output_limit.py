"""The limit of an answer, in the client's own bytes."""

import json
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.canonical.errors import ErrorClass, Rejected
from proxy.canonical.jsontext import dumps, loads
from proxy.protocols.fields import Wire, as_object
from proxy.settings.tenants import TenantLimits
from proxy.tenancy.output_limit import limit_output
from proxy.tenancy.tool_places import Client
from proxy.translation.passed_body import with_members

LIMIT = 2000


def limited(client: Client, wire: Wire, excess: Literal["clamp", "refuse"] = "clamp", most: int = LIMIT) -> object:
    """The body that is sent, decoded, and checked to be what the proxy itself goes on with."""
    raw = limit_output(TenantLimits(max_output_tokens=most, on_excess_output=excess), client, dumps(wire), wire)
    assert loads(raw) == wire
    return loads(raw)


@pytest.mark.parametrize(
    ("client", "asked", "sent"),
    [
        ("chat", {}, {"max_completion_tokens": LIMIT}),
        ("chat", {"max_completion_tokens": None}, {"max_completion_tokens": LIMIT}),
        ("chat", {"max_tokens": None}, {"max_tokens": None, "max_completion_tokens": LIMIT}),
        ("chat", {"max_tokens": 5000}, {"max_tokens": LIMIT}),
        ("chat", {"max_tokens": 100, "max_completion_tokens": 5000, "n": 3},
         {"max_tokens": 100, "max_completion_tokens": LIMIT, "n": 3}),
        ("chat", {"max_tokens": 100}, {"max_tokens": 100}),
        ("chat", {"max_tokens": LIMIT}, {"max_tokens": LIMIT}),
        ("chat", {"max_tokens": 100, "n_predict": 5000}, {"max_tokens": 100, "n_predict": LIMIT}),
        ("chat", {"max_tokens": 1e30}, {"max_tokens": LIMIT}),
        ("responses", {}, {"max_output_tokens": LIMIT}),
        ("responses", {"max_output_tokens": 5000}, {"max_output_tokens": LIMIT}),
        ("messages", {}, {"max_tokens": LIMIT}),
        ("messages", {"max_tokens": 0}, {"max_tokens": 0}),
        ("messages", {"max_tokens": 5000, "thinking": {"type": "enabled", "budget_tokens": 4000}},
         {"max_tokens": LIMIT, "thinking": {"type": "enabled", "budget_tokens": LIMIT - 1}}),
        ("messages", {"max_tokens": 5000, "thinking": {"type": "enabled", "budget_tokens": 1500}},
         {"max_tokens": LIMIT, "thinking": {"type": "enabled", "budget_tokens": 1500}}),
        ("messages", {"max_tokens": 10, "fallbacks": [{"model": "a", "max_tokens": 5000}, {"model": "b"}]},
         {"max_tokens": 10, "fallbacks": [{"model": "a", "max_tokens": LIMIT}, {"model": "b"}]}),
        ("messages", {"max_tokens": 10, "fallbacks": "default"}, {"max_tokens": 10, "fallbacks": "default"}),
        ("completions", {}, {}),  # 16 tokens for who asks for nothing
        ("completions", {"max_tokens": 0}, {"max_tokens": 0}),
        ("completions", {"max_tokens": 5000}, {"max_tokens": LIMIT}),
    ],
)  # fmt: skip
def test_more_than_the_limit_is_lowered_and_nothing_is_set(client: Client, asked: Wire, sent: Wire) -> None:
    assert limited(client, asked) == sent


def test_completions_get_a_limit_below_their_own() -> None:
    assert limited("completions", {}, most=8) == {"max_tokens": 8}


def test_a_backend_may_want_the_older_field() -> None:
    wire: Wire = {}
    raw = limit_output(TenantLimits(max_output_tokens=9), "chat", b"{}", wire, "max_tokens")
    assert raw == b'{"max_tokens":9}'
    assert wire == {"max_tokens": 9}


def test_without_a_limit_nothing_is_looked_at() -> None:
    raw = b'{"max_tokens": -1}'
    assert limit_output(TenantLimits(), "chat", raw, {"max_tokens": -1}) is raw


@pytest.mark.parametrize(
    ("client", "asked", "excess", "param"),
    [
        ("chat", {"max_tokens": 5000}, "refuse", "max_tokens"),
        ("chat", {"max_completion_tokens": 10, "max_tokens": 5000}, "refuse", "max_tokens"),
        ("messages", {"max_tokens": 10, "fallbacks": [{"max_tokens": 5000}]}, "refuse", "fallbacks[0].max_tokens"),
        ("chat", {"max_tokens": -1}, "clamp", "max_tokens"),
        ("chat", {"max_tokens": 0}, "clamp", "max_tokens"),
        ("responses", {"max_output_tokens": 0}, "clamp", "max_output_tokens"),
        ("chat", {"max_tokens": "5000"}, "clamp", "max_tokens"),
        ("chat", {"max_tokens": True}, "clamp", "max_tokens"),
        ("chat", {"max_tokens": [1]}, "clamp", "max_tokens"),
    ],
)
def test_what_is_refused_names_the_field(
    client: Client, asked: Wire, excess: Literal["clamp", "refuse"], param: str
) -> None:
    with pytest.raises(Rejected) as caught:
        limited(client, asked, excess)
    assert (caught.value.error.kind, caught.value.error.param) == (ErrorClass.INVALID, param)


def test_no_thinking_fits_into_a_small_answer() -> None:
    asked: Wire = {"max_tokens": 5000, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    with pytest.raises(Rejected) as caught:
        limited("messages", asked, most=1024)
    assert caught.value.error.message == (
        "thinking.budget_tokens: answers have at most 1024 tokens with this key, which leaves no room for thinking."
    )
    assert limited("messages", asked, most=1025) == {
        "max_tokens": 1025,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }


# --- the bytes ---


@pytest.mark.parametrize(
    ("raw", "values", "changed"),
    [
        (b"{}", {"a": 1}, b'{"a":1}'),
        (b' \n{ "x" : [ 1.0, 1e2 ] } ', {"a": 1}, b' \n{"a":1, "x" : [ 1.0, 1e2 ] } '),
        (b'{"a": 5 , "x":"\\u0061"}', {"a": 1}, b'{"a": 1 , "x":"\\u0061"}'),
        (b'{"a":5,"\\u0061":6,"x":{"a":7}}', {"a": 1}, b'{"a":1,"\\u0061":1,"x":{"a":7}}'),
        (b'{"x":"\\"a\\":5","y":{"a":7}}', {"a": 1}, b'{"a":1,"x":"\\"a\\":5","y":{"a":7}}'),
        (b'{"a":{"b":[1]}}', {"a": [2], "c": None}, b'{"c":null,"a":[2]}'),
        ('{"a":"\u00fc"}'.encode("utf-16"), {"b": 1}, '{"b":1,"a":"\u00fc"}'.encode()),
    ],
)
def test_members_are_put_where_they_belong(raw: bytes, values: Wire, changed: bytes) -> None:
    assert with_members(raw, values) == changed
    assert with_members(raw, values, as_object(loads(raw), ())) == changed


KEYS = st.sampled_from(["a", "b", "max_tokens", 'x"y', "\u00e9", "{", ""]) | st.text(max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
SPACES = st.sampled_from(["", " ", "\n", "\t \r\n"])


@st.composite
def bodies(draw: st.DrawFn) -> list[tuple[str, str, str]]:
    """Members as text: what is before the value, the value, what is behind it."""
    members = []
    for key, value in draw(st.lists(st.tuples(KEYS, VALUES), max_size=5)):
        ascii_only, indent = draw(st.booleans()), draw(st.none() | st.just(1))
        name = json.dumps(key, ensure_ascii=ascii_only)
        if draw(st.booleans()):
            name = '"' + "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else json.dumps(c)[1:-1] for c in key) + '"'
        space = [draw(SPACES) for _ in range(4)]
        text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
        members.append((key, f"{space[0]}{name}{space[1]}:{space[2]}", f"{text}\0{space[3]}"))
    return members


@given(bodies(), st.dictionaries(KEYS, VALUES, min_size=1, max_size=2), SPACES)
def test_every_other_byte_stays(members: list[tuple[str, str, str]], values: Wire, space: str) -> None:
    text = space + "{" + ",".join(before + rest.replace("\0", "") for _, before, rest in members) + "}" + space
    missing = [name for name in values if name not in {key for key, _, _ in members}]
    added = [f"{dumps(name).decode()}:{dumps(values[name]).decode()}" for name in missing]
    kept = [
        before + (dumps(values[key]).decode() + rest.partition("\0")[2] if key in values else rest.replace("\0", ""))
        for key, before, rest in members
    ]
    wanted = space + "{" + ",".join(added + kept) + "}" + space
    raw = text.encode("utf-8", "surrogatepass")
    for known in (None, {key for key, _, _ in members}):
        assert with_members(raw, values, known).decode("utf-8", "surrogatepass") == wanted
