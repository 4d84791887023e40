"""What single models refuse, after what the vendors document (mapping.md 18). Names that no row fits refuse nothing.

Written apart from the proxy's own table of models, which is what this checks.
"""

import re

from tests.harness.request_types import need
from tests.harness.wire import Json, Protocol

GPT = re.compile(r"gpt-(\d+)(?:\.(\d+))?(?!.*chat)")
O_SERIES = re.compile(r"o\d")
CLAUDE = re.compile(r"claude-(?:opus|sonnet|haiku|fable|mythos)-(\d+)(?:-(\d{1,2}))?(?!\d)")
OLD_GPT = re.compile(r"gpt-[34]")


def check_gpt(protocol: Protocol, body: Json) -> None:
    """OpenAI's models, in Chat and in Responses. Raises Refused."""
    model = body["model"]
    found = GPT.match(model)
    version = (int(found[1]), int(found[2] or 0)) if found else (0, 0)
    reasons = version >= (5, 0) or O_SERIES.match(model) is not None
    effort = body.get("reasoning_effort") if protocol == "chat" else (body.get("reasoning") or {}).get("effort")
    if OLD_GPT.match(model):
        need(effort is None, "reasoning", f"{model} does not reason")
        need("reasoning.encrypted_content" not in (body.get("include") or ()), "include", f"{model} does not reason")
    if not reasons:
        return
    if not (effort == "none" and version >= (5, 1)):
        for field in ("temperature", "top_p"):
            need(body.get(field) in (None, 1), field, f"{model} takes it only without reasoning")
        for field in ("presence_penalty", "frequency_penalty", "logprobs", "top_logprobs"):
            need(not body.get(field), field, f"{model} takes it only without reasoning")
    need("max_tokens" not in body, "max_tokens", f"{model} takes max_completion_tokens")
    need(body.get("stop") is None, "stop", f"{model} takes no stop strings")
    if protocol == "chat" and version >= (5, 4) and body.get("tools"):
        default = "none" if version == (5, 4) else "medium"
        need((effort or default) == "none", "reasoning_effort", f"{model} takes no tools while it reasons")


def check_claude(body: Json) -> None:
    """Anthropic's models. Raises Refused."""
    model = body["model"]
    found = CLAUDE.match(model)
    if found is None:
        return
    version = (int(found[1]), int(found[2] or 0))
    thinking = body.get("thinking") or {}
    _check_sampling(body, version, thinking)
    _check_thinking(body, version, thinking)
    last = body["messages"][-1]
    if last["role"] == "assistant":
        need(version < (4, 6), "messages", "This model does not support assistant message prefill")
        need(thinking.get("type") in (None, "disabled"), "messages", "no prefill with thinking")
        text = last["content"] if isinstance(last["content"], str) else last["content"][-1].get("text", "")
        need(text == text.rstrip(), "messages", "final assistant content cannot end with trailing whitespace")


def _check_sampling(body: Json, version: tuple[int, int], thinking: Json) -> None:
    for field in ("temperature", "top_p", "top_k"):
        need(version < (4, 7) or field not in body, field, "is deprecated for this model")
    if version >= (4, 1):
        need("temperature" not in body or "top_p" not in body, "top_p", "not with temperature")
    if thinking.get("type") in ("enabled", "adaptive", "between_tools"):
        need(body.get("temperature") in (None, 1), "temperature", "may only be 1 with thinking")
        need("top_k" not in body, "top_k", "not with thinking")


def _check_thinking(body: Json, version: tuple[int, int], thinking: Json) -> None:
    kind = thinking.get("type")
    forced = (body.get("tool_choice") or {}).get("type") in ("any", "tool")
    sonnet = body["model"].startswith("claude-sonnet-5-5")
    need(kind != "adaptive" or version >= (4, 6), "thinking", "adaptive is not supported on this model")
    need(kind != "between_tools" or sonnet, "thinking", "between_tools is not supported on this model")
    need(kind != "disabled" or not sonnet, "thinking", "disabled is not supported on this model")
    need(not forced or version < (5, 5), "tool_choice", "this model can't be forced")
    if kind == "enabled":
        need(version < (4, 7), "thinking", "enabled is not supported on this model")
        need(thinking["budget_tokens"] >= 1024, "thinking.budget_tokens", "at least 1024")
        need(thinking["budget_tokens"] < body["max_tokens"], "max_tokens", "must be greater than the budget")
        need(not forced, "tool_choice", "can't be forced while thinking")
