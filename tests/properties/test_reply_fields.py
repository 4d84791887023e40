"""No field of a whole reply is lost in silence (invariant I11 of mapping.md section 20).

Each field of the vendors' types is set alone, at every place and with every word it may have: then what the client
gets is another reply, or a loss is recorded, or an error told, or `reply_decisions` says why nobody misses it.
"""

import json

import pytest

from proxy.canonical.errors import Rejected
from proxy.canonical.loss import Loss
from tests.harness.wire import Json, Protocol
from tests.properties.reply_decisions import ECHO, is_idle, is_lost_whole
from tests.properties.reply_places import ROOTS, ReplyPlace, places, title
from tests.properties.test_streams import PAIRS, prepared


def outcome(client: Protocol, backend: Protocol, reply: Json) -> tuple[object, list[Loss]]:
    """What the client gets for a reply, and what is told as lost."""
    ready = prepared(client, backend, stream=False)
    try:
        out = ready.reply(json.dumps(reply).encode())
    except Rejected as rejected:
        return repr(rejected.error), []
    return out, ready.losses


@pytest.mark.parametrize(("client", "backend"), PAIRS)
def test_every_field_is_mapped_or_told(client: Protocol, backend: Protocol) -> None:
    silent: list[str] = []
    for place in places(ReplyPlace(ROOTS[backend], (), lambda reply: reply), ECHO[backend]):
        for name, value, without, with_field in place.replies():
            if is_idle(client, backend, place, name, value):
                continue
            after = outcome(client, backend, with_field)
            if after == outcome(client, backend, without) and not is_lost_whole(after[1], place):
                silent.append(f"{place.path} {title(place.struct)}.{name} = {value!r:.60}")
    assert silent == []
