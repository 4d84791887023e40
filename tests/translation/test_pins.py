"""What ties a request to the backend that answered before, and what it has in common with others of the same prompt."""

import pytest

from proxy.translation.affinity import affinity_of
from proxy.translation.pins import pin_of

REASONING = {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAAAA"}


@pytest.mark.parametrize(
    ("wire", "at"),
    [
        ({"input": "hi", "messages": [{"role": "user", "content": "hi"}]}, None),
        ({"previous_response_id": "resp_1"}, ("previous_response_id",)),
        ({"previous_response_id": None}, None),
        ({"conversation": "conv_1"}, ("conversation",)),
        ({"conversation": {"id": "conv_1"}}, ("conversation",)),
        ({"container": "container_1"}, ("container",)),
        ({"container": {"skills": []}}, None),
        ({"container": {"id": "container_1"}}, ("container",)),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, ("input", 0, "id")),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]},
            ("input", 0, "content", 0, "file_id"),
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]},
            ("messages", 0, "content", 0, "file", "file_id"),
        ),
        (
            {"messages": [{"content": [{"type": "document", "source": {"type": "file", "file_id": "f"}}]}]},
            ("messages", 0, "content", 0, "source", "file_id"),
        ),
        ({"tools": [{"type": "code_interpreter", "container": "cntr_1"}]}, ("tools", 0, "container")),
        ({"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}, None),
        ({"input": [REASONING]}, ("input", 0, "encrypted_content")),
        ({"input": [{**REASONING, "encrypted_content": "drg1.0123.abc"}]}, None),
        ({"messages": [{"content": [{"type": "thinking", "thinking": "", "signature": "Eq"}]}]}, None),
    ],
)
def test_where_a_request_refers_to_what_one_backend_knows(
    wire: dict[str, object], at: tuple[str | int, ...] | None
) -> None:
    assert pin_of(wire, passed=True) == at


def test_sealed_thinking_ties_nothing_that_is_translated() -> None:
    assert pin_of({"input": [REASONING]}, passed=False) is None


def test_a_request_may_be_as_deep_as_it_likes() -> None:
    wire: dict[str, object] = {}
    for _ in range(500):
        wire = {"content": [wire]}
    assert pin_of({"messages": [wire]}, passed=True) is None


def test_what_clients_make_up_has_no_affinity() -> None:
    deep: object = {}
    for _ in range(900):
        deep = {"a": [deep]}
    assert chat(SYSTEM, tools=[deep]) is None
    assert chat({"role": ["system"], "content": "hi"}) is None
    assert chat("system", None, tools=None, prompt_cache_key=7) is None


SYSTEM: dict[str, object] = {"role": "system", "content": "Be brief."}


def chat(*messages: object, **more: object) -> bytes | None:
    return affinity_of("chat", {"messages": list(messages), **more}, "tenant")


def test_requests_of_the_same_prompt_belong_together() -> None:
    one = chat(SYSTEM, {"role": "user", "content": "one"}, tools=[{"type": "function"}])
    assert one is not None
    assert one == chat(SYSTEM, {"role": "user", "content": "two"}, tools=[{"type": "function"}])
    assert one != chat(SYSTEM, {"role": "user", "content": "one"})
    assert one != chat({**SYSTEM, "content": "Be long."}, tools=[{"type": "function"}])


def test_a_key_of_the_client_counts_alone_and_for_its_tenant() -> None:
    assert chat(SYSTEM, prompt_cache_key="k") == chat(prompt_cache_key="k") != chat(prompt_cache_key="l")
    assert affinity_of("chat", {"prompt_cache_key": "k"}, "a") != affinity_of("chat", {"prompt_cache_key": "k"}, "b")


def test_who_says_nothing_before_the_conversation_has_no_cache_to_lose() -> None:
    assert chat({"role": "user", "content": "hi"}) is None
    assert affinity_of("messages", {"messages": []}, "") is None
    assert affinity_of("messages", {"system": "Be brief."}, "") == affinity_of("messages", {"system": "Be brief."}, "")
    assert affinity_of("responses", {"input": "hi", "instructions": "Be brief."}, "") is not None
