"""Read a whole response: the end of a stream of which nothing came before, read and folded by the same code."""

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.fold import Fold
from proxy.canonical.loss import LossReport
from proxy.canonical.reply import Reply
from proxy.canonical.spelling import Spelling
from proxy.canonical.target import Dialect
from proxy.protocols.fields import Wire
from proxy.protocols.responses.errors import read_error
from proxy.protocols.responses.stream_reader import StreamReader


def read_reply(wire: Wire, spelling: Spelling, dialect: Dialect, losses: LossReport, *, exact: bool = False) -> Reply:
    """The reply. Raises `Rejected` for an error inside a 200, and for what is no finished response.

    `exact`: long integers were decoded as they are; otherwise raises `InexactNumber` for one in arguments.
    """
    if wire.get("error") is not None:
        raise Rejected(read_error(None, wire, ""))
    if type(wire.get("output")) is not list:
        raise Rejected(_unreadable("The backend's answer is not a response."))
    if wire.get("status") in ("queued", "in_progress"):
        raise Rejected(_unreadable("The backend answered before the response was complete."))
    fold = Fold()
    reader = StreamReader(fold.emit, spelling, dialect, losses)
    reader.exact = exact
    reader.feed({"type": "response.completed", "response": wire}, "")
    if fold.error is not None:
        raise Rejected(fold.error)
    return fold.reply()


def _unreadable(message: str) -> Error:
    return Error(ErrorClass.BAD_GATEWAY, message, reason=Reason.UPSTREAM_ERROR)
