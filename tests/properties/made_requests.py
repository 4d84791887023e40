"""Requests that hypothesis makes: a conversation with settings, with fields that nobody knows, spelled in any way."""

import json
from functools import cache

from hypothesis import strategies as st

from tests.harness.request_types import fields_of
from tests.harness.wire import Json, Protocol
from tests.properties.conversations import HISTORIES, REQUEST
from tests.properties.field_samples import BESIDE, BEYOND_THE_TYPES
from tests.properties.mutations import Step, at, places, put
from tests.properties.request_places import ROOTS, is_tag, title, values
from tests.properties.scripts import WORDS

UNKNOWN = ("not_in_any_sheet", "Model", "x-\u00e9", "", "model ")
VALUES: st.SearchStrategy[Json] = st.one_of(
    st.sampled_from([None, True, 0, -1, 1.5, -0.0, 1e300, 2**53 + 1, 2**63, 2**64, -(10**30)]),
    st.sampled_from(["", "\ud83d", "\x00", "\u2028", "a/b", 'q"\\', '{"model":"m"}', "m", "drg", "See drg0.x.y"]),
    st.sampled_from([{}, [], [None], {"model": "m"}, [{"model": "m", "data": None}]]),
)
SPACES = ("", "", " ", "\n", "\t ", " \r\n ")
# Objects of the client's own making: whatever stands in one is no field.
CLIENTS_OWN = frozenset({"parameters", "input_schema", "schema", "metadata", "logit_bias", "prediction"})


@cache
def settings_of(protocol: Protocol) -> dict[str, list[Json]]:
    """Fields of the whole request beside the conversation, with values to try."""
    known, needed = fields_of(ROOTS[protocol])
    taken = needed | {"model", "messages", "input", "tools", "instructions", "system"}
    tried = {name: values(ROOTS[protocol], name, hint) for name, hint in known.items() if not is_tag(name, hint)}
    tried |= BEYOND_THE_TYPES[protocol]
    return {name: samples for name, samples in sorted(tried.items()) if samples and name not in taken}


@st.composite
def conversations(draw: st.DrawFn, protocol: Protocol) -> Json:
    """A conversation, with some settings."""
    request = REQUEST[protocol](draw(HISTORIES), draw(WORDS))
    for name in draw(st.lists(st.sampled_from(sorted(settings_of(protocol))), max_size=4, unique=True)):
        beside = BESIDE.get(f"{title(ROOTS[protocol])}.{name}", {})
        request = {**request, **beside, name: draw(st.sampled_from(settings_of(protocol)[name]))}
    return request


@st.composite
def with_unknown_fields(draw: st.DrawFn, request: Json, most: int = 3) -> Json:
    """The request with fields that nobody knows, at any place, and its own fields in another order."""
    for _ in range(draw(st.integers(0, most))):
        path = draw(st.sampled_from(objects_in(request)))
        known = at(request, path)
        grown = {**known, draw(st.sampled_from(UNKNOWN)): draw(VALUES)}
        request = put(request, path, dict(reversed(grown.items())) if draw(st.booleans()) else grown)
    return request


def objects_in(request: Json) -> list[tuple[Step, ...]]:
    """The paths of the objects whose fields mean something to the API."""
    return [
        path
        for path in places(request)
        if isinstance(at(request, path), dict)
        and CLIENTS_OWN.isdisjoint(path)
        and not (path[-1:] == ("input",) or "input" in path[1:])
    ]


@st.composite
def spelled(draw: st.DrawFn, value: Json) -> bytes:
    """JSON text of a value, with odd spaces and needless escapes, or plain."""
    if draw(st.booleans()):
        return json.dumps(value, ensure_ascii=draw(st.booleans())).encode(errors="surrogatepass")
    return _Speller(draw(st.integers(0, 50)), draw(st.sampled_from([0, 1, 3, 7]))).value(value).encode()


class _Speller:
    """`start`: which space comes first; `every`: so many characters from one needless escape to the next."""

    def __init__(self, start: int, every: int) -> None:
        self._spaces = start
        self._every = every
        self._characters = start

    def value(self, value: Json) -> str:
        if isinstance(value, dict):
            members = (f"{self._space()}{self._text(name)}{self._space()}:{self.value(value[name])}" for name in value)
            return self._around("{" + ",".join(members) + self._space() + "}")
        if isinstance(value, list):
            return self._around("[" + ",".join(map(self.value, value)) + self._space() + "]")
        return self._around(self._text(value) if isinstance(value, str) else json.dumps(value))

    def _around(self, text: str) -> str:
        return self._space() + text + self._space()

    def _space(self) -> str:
        self._spaces += 1
        return SPACES[self._spaces * self._spaces % 7 % len(SPACES)]

    def _text(self, text: str) -> str:
        return '"' + "".join(map(self._character, text)) + '"'

    def _character(self, character: str) -> str:
        self._characters += 1
        if self._every and self._characters % self._every == 0 and ord(character) < 0x10000:
            return "\\/" if character == "/" else f"\\u{ord(character):04X}"
        return json.dumps(character)[1:-1]
