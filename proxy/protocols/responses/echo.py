"""What a response repeats of its request (responses.md 9, mapping.md 14.3).

A stream writes it three times, so what may be large is dumped once, here. The client's own tools are echoed, not the
translated ones.
"""

from proxy.canonical.jsontext import Fragment, dumps
from proxy.canonical.parts import Extra
from proxy.protocols.fields import Wire, is_object

# Fields that read as the client gave them; the values are those of an absent field.
DEFAULTS: Extra = {
    "background": False,
    "conversation": None,
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt": None,
    "prompt_cache_key": None,
    "prompt_cache_options": None,
    "prompt_cache_retention": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": False,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
# Fields of a response that the proxy knows nothing of.
UNKNOWN: Extra = {
    "access_programs": None,
    "image": None,
    "input_transformations": None,
    "moderation": None,
    "prompt_cache_diagnostics": None,
}
LARGE = ("instructions", "metadata", "tool_choice", "tools")
# The proxy decides these, whatever the client asked for.
_OURS = frozenset({"background", "conversation", "previous_response_id", "prompt", "prompt_cache_options", "store"})


def echo_of(wire: Wire) -> Extra:
    """The echo of a request that was read without complaint: every field is there."""
    echo = {**DEFAULTS, **UNKNOWN}
    for name in wire.keys() & DEFAULTS.keys():
        value = wire[name]
        if value is not None and name not in _OURS:
            echo[name] = value
    if is_object(reasoning := wire.get("reasoning")):
        echo["reasoning"] = {"effort": None, "summary": None, **reasoning}
    if is_object(text := wire.get("text")):
        echo["text"] = _text(text)
    for name in LARGE:
        if echo[name] is not DEFAULTS[name]:
            echo[name] = Fragment(dumps(echo[name]))
    return echo


def _text(wire: Wire) -> Extra:
    settings = {"format": {"type": "text"}, "verbosity": "medium"}
    return {**settings, **{name: value for name, value in wire.items() if value is not None}}
