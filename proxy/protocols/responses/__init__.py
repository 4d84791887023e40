"""OpenAI Responses."""

from proxy.protocols.responses.errors import read_error, write_error
from proxy.protocols.responses.request_reader import read_request
from proxy.protocols.responses.request_writer import write_request

__all__ = [
    "read_error",
    "read_request",
    "write_error",
    "write_request",
]
