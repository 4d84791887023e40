"""Token counts as Chat servers give them."""

import pytest

from proxy.canonical.usage import Usage
from proxy.protocols.openai_completions import read_usage, write_usage


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
        ({"prompt_tokens": "9", "completion_tokens": True, "prompt_tokens_details": []}, Usage()),
    ],
)
def test_each_token_is_counted_once(wire: object, usage: Usage | None) -> None:
    assert read_usage(wire) == usage


def test_what_is_written_is_read_again() -> None:
    usage = Usage(input_fresh=2, cache_read=4, cache_write=3, output=8, reasoning=5)
    assert read_usage(write_usage(usage)) == usage
