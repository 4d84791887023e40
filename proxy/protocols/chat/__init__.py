"""OpenAI Chat Completions, as a client's and as a backend's protocol (chat_completions.md)."""

from proxy.protocols.chat.account import Account, is_usage_alone
from proxy.protocols.chat.reply_reader import read_reply
from proxy.protocols.chat.reply_writer import write_choices, write_reply
from proxy.protocols.chat.request_reader import read_request
from proxy.protocols.chat.request_writer import write_request
from proxy.protocols.chat.stream_reader import StreamReader
from proxy.protocols.chat.stream_writer import StreamWriter
from proxy.protocols.chat.tables import CALL_SIGNATURE, REASONING_FIELDS
from proxy.protocols.chat.tool_reader import read_hosted_tool
from proxy.protocols.openai_errors import read_error, write_error

__all__ = [
    "CALL_SIGNATURE",
    "REASONING_FIELDS",
    "Account",
    "StreamReader",
    "StreamWriter",
    "is_usage_alone",
    "read_error",
    "read_hosted_tool",
    "read_reply",
    "read_request",
    "write_choices",
    "write_error",
    "write_reply",
    "write_request",
]
