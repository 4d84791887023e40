"""Which refusals of a backend name one field that a translation can do without (mapping.md 17.3)."""

import json

import pytest

from proxy.canonical.loss import Loss, LossReport, Rule
from proxy.translation.codecs import BackendProtocol
from proxy.translation.pair import read_backend_error
from proxy.translation.refused_fields import leave_out, mended

BODIES: dict[BackendProtocol, dict[str, object]] = {
    "chat": {
        "model": "m",
        "messages": [{"role": "user", "content": "temperature"}],
        "max_tokens": 12345678901234567890,
        "temperature": 0.5,
        "top_p": 0.5,
        "seed": 1,
        "reasoning_effort": "max",
        "tools": [{"strict": True}],
        "user": "u",
        "stream_options": {"include_usage": True},
    },
    "responses": {
        "model": "m",
        "input": "hi",
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "low"},
        "max_output_tokens": 20,
        "safety_identifier": "u",
        "store": False,
    },
    "messages": {
        "model": "m",
        "max_tokens": 5,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {}}]}],
        "cache_control": {"type": "ephemeral"},
        "top_k": 3,
        "temperature": 0.5,
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "low"},
    },
}


def told(protocol: BackendProtocol, message: str, param: str | None = None) -> dict[str, object]:
    if protocol == "messages":
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": None}}


def tried(protocol: BackendProtocol, answer: object, status: int = 400, losses: LossReport | None = None) -> str | None:
    body = json.dumps(BODIES[protocol]).encode()
    error = read_backend_error(protocol, status, json.dumps(answer).encode())
    found = mended(protocol, body, error, losses or LossReport())
    if found is None:
        return None
    field, rest = found
    assert json.loads(rest) == without(BODIES[protocol], field)
    return field


def without(body: dict[str, object], field: str) -> dict[str, object]:
    left: dict[str, object] = json.loads(json.dumps(body))
    outer, _, inner = field.partition(".")
    held = left[outer]
    if not inner or (isinstance(held, dict) and len(held) == 1):
        del left[outer]
    elif isinstance(held, dict):
        del held[inner]
    return left


@pytest.mark.parametrize(
    ("protocol", "message", "param", "field"),
    [
        ("chat", "Unsupported parameter: 'seed' is not supported with this model.", "seed", "seed"),
        (
            "chat",
            "Unsupported value: 'temperature' does not support 0.5 with this model.",
            "temperature",
            "temperature",
        ),
        ("chat", "Unknown field: top_p", None, "top_p"),
        ("chat", "Unrecognized request argument supplied: reasoning_effort", None, "reasoning_effort"),
        ("chat", "`seed` is not supported by this model", None, "seed"),
        (
            "responses",
            "Unsupported parameter: 'reasoning.summary' is not supported.",
            "reasoning.summary",
            "reasoning.summary",
        ),
        ("responses", "Unknown parameter: 'text.verbosity'.", "text.verbosity", "text.verbosity"),
        ("responses", "Unknown parameter: 'store'.", None, "store"),
        ("messages", "top_k: Extra inputs are not permitted", None, "top_k"),
        ("messages", "cache_control: Extra inputs are not permitted", None, "cache_control"),
        ("messages", "output_config.effort: not supported on this model", None, "output_config.effort"),
        ("messages", "thinking.display: Extra inputs are not permitted", None, "thinking.display"),
    ],
)
def test_what_can_be_left_out(protocol: BackendProtocol, message: str, param: str | None, field: str) -> None:
    assert tried(protocol, told(protocol, message, param)) == field


@pytest.mark.parametrize(
    ("protocol", "message", "param"),
    [
        # Two fields, or none that was sent.
        ("chat", "`temperature` and `top_p` are not supported together", None),
        ("chat", "Unsupported parameter: 'min_p'", "min_p"),
        ("chat", "This model is not supported", None),
        # No refusal of a field.
        ("chat", "temperature: 0.5 is too high", "temperature"),
        # What the answer rests on.
        ("chat", "Unsupported parameter: 'max_tokens' is not supported with this model.", "max_tokens"),
        ("chat", "Unknown parameter: 'user'", "user"),
        ("chat", "Unknown parameter: 'tools[0].strict'", "tools[0].strict"),
        ("chat", "Unknown parameter: 'messages[0].temperature'", "messages[0].temperature"),
        ("chat", "Unknown parameter: 'stream_options.include_usage'", "stream_options.include_usage"),
        ("responses", "Unknown parameter: 'safety_identifier'", "safety_identifier"),
        ("responses", "Unknown parameter: 'reasoning'", "reasoning"),
        ("messages", "messages.0.content.0.cache_control: Extra inputs are not permitted", None),
        ("messages", "max_tokens: not supported", None),
    ],
)
def test_what_can_not(protocol: BackendProtocol, message: str, param: str | None) -> None:
    assert tried(protocol, told(protocol, message, param)) is None


def test_a_list_of_complaints_as_some_servers_make_it() -> None:
    detail = [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]
    assert tried("chat", {"detail": detail}, 422) == "seed"


@pytest.mark.parametrize("status", [401, 404, 429, 500])
def test_only_what_is_refused_as_malformed(status: int) -> None:
    assert tried("chat", told("chat", "Unsupported parameter: 'seed'", "seed"), status) is None


def test_the_loss_is_told_or_refused() -> None:
    complaint = told("chat", "Unsupported parameter: 'seed'", "seed")
    losses = LossReport()
    tried("chat", complaint, losses=losses)
    assert losses.losses == [Loss(Rule.SEED, "drop", "seed")]
    assert tried("chat", complaint, losses=LossReport(strict=True)) is None
    assert tried("chat", complaint, losses=LossReport(refused={Rule.SEED})) is None


def test_what_is_known_is_left_out_at_once() -> None:
    losses = LossReport()
    wire: dict[str, object] = {"reasoning": {"summary": "auto"}, "metadata": {"a": "b"}}
    leave_out("responses", wire, ["reasoning.summary", "store"], losses)
    assert (wire, losses.losses) == ({"metadata": {"a": "b"}}, [Loss(Rule.REASONING, "drop", "reasoning.summary")])


@pytest.mark.parametrize("field", ["continue_final_message", "add_generation_prompt"])
def test_the_two_halves_of_going_on_leave_together(field: str) -> None:
    body = json.dumps({"model": "m", "continue_final_message": True, "add_generation_prompt": False}).encode()
    losses = LossReport()
    error = read_backend_error("chat", 400, json.dumps(told("chat", f"Unknown parameter: '{field}'.", field)).encode())
    found = mended("chat", body, error, losses)
    assert found is not None
    assert (found[0], json.loads(found[1])) == (field, {"model": "m"})
    assert losses.losses == [Loss(Rule.PREFILL, "approx", field)]


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [("thinking", {"type": "disabled"}, Rule.THINKING), ("enable_thinking", False, Rule.REASONING)],
)
def test_a_switch_of_thinking_may_go(field: str, value: object, rule: Rule) -> None:
    body = json.dumps({"model": "m", field: value}).encode()
    error = read_backend_error("chat", 400, json.dumps(told("chat", f"Unknown parameter: '{field}'.", field)).encode())
    losses = LossReport()
    found = mended("chat", body, error, losses)
    assert found is not None
    assert (found[0], json.loads(found[1])) == (field, {"model": "m"})
    assert losses.losses == [Loss(rule, "drop", field)]
