"""Token counts as Chat servers give them, and the words for why an answer ended."""

from typing import get_args

import pytest
from openai.types.chat.chat_completion import Choice

from proxy.canonical.stop import Stop, StopKind
from proxy.canonical.usage import Usage
from proxy.protocols.openai_completions import FINISH_REASONS, finish_reason, read_usage, write_usage


@pytest.mark.parametrize(
    ("wire", "usage"),
    [
        (None, None),
        ({}, None),
        ({"total_tokens": 5}, None),
        ({"prompt_tokens": 9, "completion_tokens": 2}, Usage(input_fresh=9, output=2)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(input_fresh=5, cache_read=4)),
        (
            {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3}},
            Usage(input_fresh=2, cache_read=4, cache_write=3),
        ),
        (
            {"prompt_tokens": 9, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 5},
            Usage(input_fresh=5, cache_read=4),
        ),
        ({"prompt_tokens": 9, "cached_tokens": 4}, Usage(input_fresh=5, cache_read=4)),
        ({"prompt_tokens": 9, "num_cached_tokens": 4}, Usage(input_fresh=5, cache_read=4)),
        (
            {"prompt_tokens": 9, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2},
            Usage(input_fresh=3, cache_read=4, cache_write=2),
        ),
        (
            {"prompt_tokens": 9, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 2},
            Usage(input_fresh=9, cache_read=40, cache_write=2),
        ),
        (
            {"completion_tokens": 8, "completion_tokens_details": {"reasoning_tokens": 5}},
            Usage(output=8, reasoning=5),
        ),
        ({"prompt_tokens": 9.0, "completion_tokens": -1}, Usage(input_fresh=9)),
        ({"prompt_tokens": 9, "completion_tokens": True, "prompt_tokens_details": []}, Usage(input_fresh=9)),
        ({"prompt_tokens": 9, "cost": 0.0021, "cost_details": {}}, Usage(input_fresh=9, cost=0.0021)),
        # Only who counts like Claude may leave what was cached out of the prompt.
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 40}}, Usage(input_fresh=0, cache_read=40)),
        ({"prompt_tokens": "9", "completion_tokens": True}, None),
        ({"prompt_tokens": None, "completion_tokens": None}, None),
    ],
)
def test_each_token_is_counted_once(wire: object, usage: Usage | None) -> None:
    assert read_usage(wire) == usage


def test_what_is_written_is_read_again() -> None:
    usage = Usage(input_fresh=2, cache_read=4, cache_write=3, output=8, reasoning=5)
    assert read_usage(write_usage(usage)) == usage


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        (Stop("end"), "stop"),
        (Stop("tool"), "tool_calls"),
        (Stop("length"), "length"),
        (Stop("stop_sequence", sequence="END"), "stop"),
        (Stop("context"), "length"),
        (Stop("filter"), "content_filter"),
        (Stop("refusal"), "stop"),
        (Stop("refusal", classifier=True), "content_filter"),
        (Stop("pause"), "length"),
        (Stop("compaction"), "length"),
        (Stop("max_messages"), "length"),
        (Stop("steered"), "stop"),
    ],
)
def test_finish_reasons(stop: Stop, reason: str) -> None:
    """mapping.md 12.1."""
    assert finish_reason(stop) == reason


def test_every_stop_has_a_finish_reason_that_openai_knows() -> None:
    known = set(get_args(Choice.model_fields["finish_reason"].annotation))
    assert set(FINISH_REASONS) == set(get_args(StopKind))
    assert set(FINISH_REASONS.values()) <= known
