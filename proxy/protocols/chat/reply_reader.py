"""Read a whole Chat Completions answer.

It is read as a stream of one chunk and folded, so that a stream and a whole answer can't come to differ.
"""

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.fold import Fold
from proxy.canonical.loss import LossReport
from proxy.canonical.reply import Reply
from proxy.canonical.spelling import Spelling
from proxy.canonical.target import Dialect
from proxy.protocols.chat.stream_reader import StreamReader
from proxy.protocols.fields import Wire


def read_reply(wire: Wire, spelling: Spelling, dialect: Dialect, losses: LossReport, *, exact: bool = False) -> Reply:
    """The reply in `wire`. Raises `Rejected` for an error inside a 200 and for what is no completion.

    `exact`: long integers were decoded as they are; otherwise raises `InexactNumber` for one in arguments.
    """
    choices = wire.get("choices")
    fold = Fold()
    reader = StreamReader(fold.emit, spelling, dialect, losses)
    reader.exact = exact
    reader.feed(wire)
    if fold.error is None and not (type(choices) is list and choices):
        raise Rejected(
            Error(
                ErrorClass.BAD_GATEWAY,
                "The backend's answer is not a chat completion: it has no choices.",
                reason=Reason.UPSTREAM_ERROR,
            )
        )
    reader.done()
    if fold.error is not None:
        raise Rejected(fold.error)
    return fold.reply()
