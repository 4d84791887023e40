"""Which requests must not be sent twice."""

import json

import pytest

from proxy.upstream.repeatable import leaves_traces


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, False),
        ({"store": False}, False),
        ({"store": True}, True),
        ({"background": True}, True),
        ({"tools": [{"type": "function", "name": "mcp"}]}, False),
        ({"tools": [{"type": "web_search"}, {"type": "file_search"}]}, False),
        ({"tools": [{"type": "mcp"}]}, True),
        ({"tools": [{"type": "mcp_toolset"}]}, True),
        ({"tools": [{"type": "code_interpreter"}]}, True),
        ({"tools": [{"type": "code_execution_20250825"}]}, True),
        ({"tools": [{"type": "local_shell"}, {"type": "shell"}]}, False),
        ({"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}, True),
        ({"tools": "all", "mcp_servers": []}, False),
        ({"mcp_servers": [{"url": "https://m"}]}, True),
        ({"container": "c_1"}, True),
        ([], True),
    ],
)
def test_what_does_something_beside_the_answer(body: object, expected: bool) -> None:
    assert leaves_traces(json.dumps(body).encode()) is expected


def test_what_nobody_can_read_may_do_anything() -> None:
    assert leaves_traces(b"--boundary")
