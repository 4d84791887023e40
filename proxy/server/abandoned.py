"""The end of a response whose replica went away while it made it: it has failed, and its stream says so."""

from contextlib import suppress

from proxy.canonical.errors import Error, ErrorClass, Reason
from proxy.canonical.jsontext import dumps
from proxy.state import Append, Conflict, Key, Put, Store, Write
from proxy.translation.kept_turns import RUNNING, events_of, failure_events, number_of, read_turn, write_turn

_LOST = Error(ErrorClass.SERVER, "The replica of the proxy that made this response went away.", reason=Reason.INTERNAL)


async def end_abandoned(store: Store, key: Key) -> None:
    """Mark it failed, unless another replica has. Raises `StoreFailed`."""
    record = (await store.get(key.tenant, key.kind, [key.id])).get(key.id)
    if record is None:
        return
    turn = read_turn(record.value)
    if turn.status not in RUNNING:
        with suppress(Conflict):  # it needs nobody any more
            await store.commit(Put(key, record.value, record.expires, version=record.version))
        return
    last = await store.items(key, None, 1, newest=True)
    numbers = [number_of(event) for event in events_of(last[0].value)] if last else []
    number = max((number for number in numbers if number is not None), default=-1) + 1
    events, failed = failure_events(number, turn.response, _LOST)
    value = write_turn(dumps(failed), dumps(turn.input), turn.chain, turn.base, turn.job)
    writes: list[Write] = [Put(key, value, record.expires, version=record.version)]
    if turn.job == "streamed":
        writes.append(Append(key, [(f"{number:09d}", events)], record.expires))
    try:
        await store.commit(*writes)
    except Conflict:
        return  # it has ended meanwhile
