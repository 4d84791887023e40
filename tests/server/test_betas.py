"""A translated request tells a Messages backend of the features that it uses (messages.md 3.1)."""

from pathlib import Path

import pytest

from tests.server.serving import PATHS, REQUESTS, says_hello
from tests.server.test_settings_in_force import configured
from tests.upstream.scripted import Scripted

SERVER = {"type": "mcp", "server_label": "docs", "server_url": "https://docs.example/mcp", "require_approval": "never"}


@pytest.mark.parametrize(("tools", "told"), [([SERVER], "mcp-client-2025-11-20"), ([], None)])
async def test_servers_of_tools(tmp_path: Path, tools: list[object], told: str | None) -> None:
    async with (
        Scripted(says_hello("messages", streamed=False)) as backend,
        configured(tmp_path, backend.base_url, protocol="messages", dialect="anthropic") as proxy,
    ):
        status, _, _ = await proxy.post(PATHS["responses"], {**REQUESTS["responses"], "tools": tools})
    assert status == 200
    assert backend.asked[0].headers.get("anthropic-beta") == told
