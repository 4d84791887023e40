"""JSON that only the slow decoder and encoder know."""

import json
from math import inf, nan

import pytest

from proxy.canonical.jsontext import NotJson, dumps, dumps_exact, loads, loads_exact, loads_leniently

LONG = 123456789012345678901


@pytest.mark.parametrize("text", ['{"a":NaN}', "[Infinity]", '{"a":-Infinity}'])
def test_only_a_backend_may_send_what_is_no_number(text: str) -> None:
    with pytest.raises(NotJson):
        loads(text)
    assert dumps_exact(loads_leniently(text)) == dumps_exact(loads_exact(text)) == text.encode()


@pytest.mark.parametrize("decode", [loads, loads_leniently, loads_exact])
@pytest.mark.parametrize("text", ["", "{", "nan", "[1,]", "\xff"])
def test_no_json(decode: type, text: str) -> None:
    with pytest.raises(NotJson):
        decode(text)


@pytest.mark.parametrize(
    ("value", "dumped"),
    [
        ([nan, inf, 1.5], b"[null,null,1.5]"),
        ([nan, LONG], b"[null,123456789012345678901]"),
        ([inf, "NaN \ud83d"], '["NaN \ufffd"]'.replace("[", "[null,").encode()),
        (["NaN", None], b'["NaN",null]'),
    ],
)
def test_what_leaves_is_json(value: object, dumped: bytes) -> None:
    assert dumps(value) == dumped
    json.loads(dumped)


@pytest.mark.parametrize(
    ("value", "dumped"),
    [
        ({"a": None, "b": 1e30}, b'{"a":null,"b":1e+30}'),
        ({"a": None, "b": "Infinity"}, b'{"a":null,"b":"Infinity"}'),
        ({"a": nan, "b": None, "c": LONG}, b'{"a":NaN,"b":null,"c":123456789012345678901}'),
    ],
)
def test_arguments_keep_what_is_no_number(value: object, dumped: bytes) -> None:
    assert dumps_exact(value) == dumped
