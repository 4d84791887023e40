"""Anthropic Messages, on either side. The fact sheet is messages.md, the translation rules are mapping.md."""

from proxy.protocols.messages.account import Account
from proxy.protocols.messages.betas import betas_of
from proxy.protocols.messages.citations import read_citation
from proxy.protocols.messages.content import MessageContent, container_of, continued
from proxy.protocols.messages.deeds import read_deed, show_deed
from proxy.protocols.messages.errors import read_error, write_error
from proxy.protocols.messages.hosted_tools import HOSTED_NAMES, read_hosted_tool
from proxy.protocols.messages.reply_reader import read_reply
from proxy.protocols.messages.reply_writer import write_reply
from proxy.protocols.messages.request_reader import read_request
from proxy.protocols.messages.request_writer import write_request
from proxy.protocols.messages.stream_reader import StreamReader
from proxy.protocols.messages.stream_writer import StreamWriter
from proxy.protocols.messages.tables import HOSTED_TYPES

__all__ = [
    "HOSTED_NAMES",
    "HOSTED_TYPES",
    "Account",
    "MessageContent",
    "StreamReader",
    "StreamWriter",
    "betas_of",
    "container_of",
    "continued",
    "read_citation",
    "read_deed",
    "read_error",
    "read_hosted_tool",
    "read_reply",
    "read_request",
    "show_deed",
    "write_error",
    "write_reply",
    "write_request",
]
