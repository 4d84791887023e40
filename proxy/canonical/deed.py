"""What a tool did that the backend ran itself, in no one's wire format (mapping.md 5.5)."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(slots=True)
class Deed:
    """`kind` is that of the tool. `said` is the query, the code, or the arguments as JSON text; `server` and `name` are
    those of an MCP tool; `sources` are addresses that a search found. `output` is what came of it, None as long as
    nothing has; `error` what went wrong; `done` says that the tool has answered.
    """

    kind: Literal["web_search", "code", "mcp"]
    said: str = ""
    server: str = ""
    name: str = ""
    sources: list[str] = field(default_factory=list)
    output: str | None = None
    error: str | None = None
    done: bool = False
