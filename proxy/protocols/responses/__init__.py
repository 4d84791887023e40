"""OpenAI Responses."""

from proxy.protocols.responses.account import Account
from proxy.protocols.responses.deeds import read_deed, show_deed
from proxy.protocols.responses.echo import echo_of
from proxy.protocols.responses.errors import failure_of, read_error, write_error
from proxy.protocols.responses.hosted_tools import HOSTED_NAMES, read_hosted_tool
from proxy.protocols.responses.missing_end import MissingEnd
from proxy.protocols.responses.reply_reader import read_reply
from proxy.protocols.responses.reply_writer import write_reply
from proxy.protocols.responses.request_reader import read_request
from proxy.protocols.responses.request_writer import write_request
from proxy.protocols.responses.response_object import place_of, queued_response
from proxy.protocols.responses.stored_items import as_items, listed_item, listed_items, sent_items
from proxy.protocols.responses.stream_reader import StreamReader
from proxy.protocols.responses.stream_writer import StreamWriter
from proxy.protocols.responses.tables import HOSTED_TYPES
from proxy.protocols.responses.usage import write_usage

__all__ = [
    "HOSTED_NAMES",
    "HOSTED_TYPES",
    "Account",
    "MissingEnd",
    "StreamReader",
    "StreamWriter",
    "as_items",
    "echo_of",
    "failure_of",
    "listed_item",
    "listed_items",
    "place_of",
    "queued_response",
    "read_deed",
    "read_error",
    "read_hosted_tool",
    "read_reply",
    "read_request",
    "sent_items",
    "show_deed",
    "write_error",
    "write_reply",
    "write_request",
    "write_usage",
]
