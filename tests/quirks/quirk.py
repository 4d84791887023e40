"""One deviation, and what the answer means."""

from dataclasses import dataclass, field

from proxy.canonical.target import Dialect
from tests.harness.wire import Json

OSLO = '{"city":"Oslo"}'


@dataclass(frozen=True)
class Quirk:
    """`events` are wire objects, or bytes as they are. `text`: what the client is told, a refusal too, no line ends.
    `calls`: (name, arguments as an object, or as text where they are no JSON). `stop`: end, tool, length, filter,
    refusal or stop_sequence; None: it must be told as broken. `whole`: the same answer without a stream.
    `cited`: the URLs of its citations. `late`: some parts come in an order that no stream of Messages can repeat.
    """

    name: str
    events: list[Json]
    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, Json]] = field(default_factory=list)
    stop: str | None = "end"
    whole: Json = None
    cited: tuple[str, ...] = ()
    dialect: Dialect = field(default_factory=Dialect)
    late: bool = False


def broken(name: str, events: list[Json], dialect: Dialect | None = None) -> Quirk:
    """A stream that must not look finished."""
    return Quirk(name, events, stop=None, dialect=dialect or Dialect())
