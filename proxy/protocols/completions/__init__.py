"""OpenAI's legacy text completions: a client's protocol only (mapping.md 16.3)."""

from proxy.protocols.completions.reply_writer import write_choices, write_reply
from proxy.protocols.completions.request_reader import read_request
from proxy.protocols.completions.stream_writer import StreamWriter
from proxy.protocols.openai_errors import write_error

__all__ = ["StreamWriter", "read_request", "write_choices", "write_error", "write_reply"]
