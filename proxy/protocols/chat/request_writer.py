"""Write a prepared Request as a Chat Completions request.

The dialect decides what is sent (mapping.md 17): any server takes the core fields, the others go only to a server that
is known to take them, since many answer 400 to a field that they do not know. What is not sent is recorded.
"""

import hashlib

from proxy.canonical.loss import LossReport, Path, Rule
from proxy.canonical.parts import Call
from proxy.canonical.request import OutputFormat, Request
from proxy.canonical.target import Dialect, Target
from proxy.canonical.tools import HostedTool, Tool, ToolPolicy, WebSearch
from proxy.protocols.chat.message_writer import write_messages
from proxy.protocols.chat.tables import CORE_FIELDS
from proxy.protocols.chat.tool_writer import write_tool, write_tool_choice, write_web_search
from proxy.protocols.fields import Wire

# Sampling fields by their names here, which are also the canonical ones.
_SAMPLING: tuple[tuple[str, Rule], ...] = (
    ("temperature", Rule.TEMPERATURE),
    ("top_p", Rule.TOP_P),
    ("top_k", Rule.TOP_K),
    ("min_p", Rule.MIN_P),
    ("repetition_penalty", Rule.REPETITION_PENALTY),
    ("seed", Rule.SEED),
    ("presence_penalty", Rule.PRESENCE_PENALTY),
    ("frequency_penalty", Rule.FREQUENCY_PENALTY),
    ("logit_bias", Rule.LOGIT_BIAS),
    ("n", Rule.N),
    ("logprobs", Rule.LOGPROBS),
    ("top_logprobs", Rule.TOP_LOGPROBS),
)

# mapping.md 11.3. What Messages calls `auto` is the default here.
END_USER_LENGTH = 64  # characters of `safety_identifier` (chat_completions.md 4)
_TIERS_OF_MESSAGES = {"standard_only": "default"}
_TIERS_OF_OTHERS = {"ultrafast": "fast"}


def write_request(request: Request, target: Target, losses: LossReport) -> Wire:
    """The body for the backend. Raises `Rejected` where the backend can't do what the client relies on."""
    body: Wire = {"model": target.model, "messages": write_messages(request, target, losses)}
    sender = _Sender(body, target.dialect, losses)
    _write_prefill(request, sender)
    _write_tools(request, target.dialect, body, losses)
    _write_sampling(request, sender)
    _write_reasoning(request, sender)
    _write_output(request, sender)
    _write_limits(request, sender)
    _write_cache(request, sender)
    _write_identity(request, sender)
    _write_service(request, sender)
    _write_stream(request, target.dialect, body)
    return body


class _Sender:
    """Puts fields into the body that the dialect takes, and records the others."""

    __slots__ = ("body", "dialect", "losses")

    def __init__(self, body: Wire, dialect: Dialect, losses: LossReport) -> None:
        self.body = body
        self.dialect = dialect
        self.losses = losses

    def takes(self, name: str) -> bool:
        """Whether the server takes the field."""
        dialect = self.dialect
        return name in dialect.fields or (name in CORE_FIELDS and name not in dialect.no_fields)

    def send(self, name: str, value: object, rule: Rule, at: Path) -> None:
        """Send the field, or record that it is not sent; `at` is where the client put it."""
        if self.takes(name):
            self.body[name] = value
        else:
            self.losses.drop(rule, at)


def _write_prefill(request: Request, sender: _Sender) -> None:
    """A last turn of the assistant is one to be continued (mapping.md 2.4)."""
    last = request.turns[-1] if request.turns else None
    if last is None or last.role != "assistant" or any(isinstance(part, Call) for part in last.parts):
        return
    if sender.takes("continue_final_message"):
        sender.body["continue_final_message"] = True
        sender.body["add_generation_prompt"] = False
    elif not sender.dialect.continues_prefill:
        sender.losses.approx(Rule.PREFILL, last.at)


def _write_tools(request: Request, dialect: Dialect, body: Wire, losses: LossReport) -> None:
    policy = request.tool_policy
    own: list[Tool] = []
    for tool in request.tools:
        if isinstance(tool, HostedTool) and isinstance(asked := tool.asked, WebSearch):
            body["web_search_options"] = write_web_search(asked)
        else:
            own.append(tool)
    tools = _subset(own, policy, dialect, losses)
    if not tools or (policy.mode == "none" and dialect.no_tool_choice_none and not _has_calls(request)):
        return
    body["tools"] = [write_tool(tool, losses) for tool in tools]
    choice = write_tool_choice(policy, dialect.any_is)
    if choice is not None:
        body["tool_choice"] = choice
    if policy.parallel is not None:
        body["parallel_tool_calls"] = policy.parallel


def _subset(tools: list[Tool], policy: ToolPolicy, dialect: Dialect, losses: LossReport) -> list[Tool]:
    """Servers without `allowed_tools` get only the tools that are allowed (mapping.md 6.1)."""
    if policy.allowed is None or "allowed_tools" in dialect.fields:
        return tools
    losses.approx(Rule.ALLOWED_TOOLS, policy.at)
    names = {ref.name for ref in policy.allowed}
    policy.allowed = None
    return [tool for tool in tools if tool.name in names]


def _has_calls(request: Request) -> bool:
    return any(isinstance(part, Call) for turn in request.turns for part in turn.parts)


def _write_sampling(request: Request, sender: _Sender) -> None:
    for name, rule in _SAMPLING:
        value = getattr(request.sampling, name)
        if value is None:
            continue
        if name == "seed" and sender.takes("seed"):
            sender.body[sender.dialect.seed_key] = value
        else:
            sender.send(name, value, rule, request.sampling.place_of(name))


# How servers are told to think or not, where it is not an effort (mapping.md 8.8): the field, and its values for both.
_SWITCHES: dict[str, tuple[str, object, object]] = {
    "thinking": ("thinking", {"type": "enabled"}, {"type": "disabled"}),
    "enable_thinking": ("enable_thinking", True, False),
    "template": ("chat_template_kwargs", {"enable_thinking": True}, {"enable_thinking": False}),
    "reasoning": ("reasoning", {"enabled": True}, {"enabled": False}),
}


def _write_reasoning(request: Request, sender: _Sender) -> None:
    """The effort, and the server's own switch; OpenRouter wants both in an object that other servers do not know."""
    policy = request.reasoning
    effort = policy.effort
    wanted = policy.mode == "adaptive" or effort not in (None, "none")
    shown = policy.show is True or effort not in (None, "none")
    if shown and sender.takes("reasoning_format"):
        sender.body["reasoning_format"] = "parsed"  # Groq, which else hides it or puts it into the text
    switch = _SWITCHES.get(sender.dialect.thinking_switch)
    if switch is not None and (wanted or effort == "none"):
        name, on, off = switch
        sender.body[name] = on if wanted else off
        if effort == "none":
            return
    if effort is None:
        return
    if sender.takes("reasoning"):
        sender.body["reasoning"] = {"effort": effort}
    elif switch is not None and not sender.takes("reasoning_effort"):
        sender.losses.approx(Rule.EFFORT, policy.at)  # it thinks, and how much is its own affair
    else:
        sender.send("reasoning_effort", effort, Rule.EFFORT, policy.at)


def _write_output(request: Request, sender: _Sender) -> None:
    output = request.output
    if output.format is not None:
        sender.send("response_format", _format(output.format), Rule.RESPONSE_FORMAT, output.format.at)
    if output.verbosity is not None:
        at: Path = ("text", "verbosity") if request.origin == "responses" else ("verbosity",)
        sender.send("verbosity", output.verbosity, Rule.VERBOSITY, at)
    if output.modalities is not None and output.modalities != ["text"]:
        sender.send("modalities", output.modalities, Rule.MODALITIES, ("modalities",))
    if output.prediction is not None:
        sender.send("prediction", output.prediction, Rule.PREDICTION, ("prediction",))


def _format(form: OutputFormat) -> Wire:
    if form.kind == "json_object":
        return {"type": "json_object"}
    schema: Wire = {"name": form.name or "output"}
    if form.description is not None:
        schema["description"] = form.description
    if form.schema is not None:
        schema["schema"] = form.schema
    if form.strict is not None:
        schema["strict"] = form.strict
    return {"type": "json_schema", "json_schema": schema}


def _write_limits(request: Request, sender: _Sender) -> None:
    limits = request.limits
    if limits.max_output is not None:
        sender.body[sender.dialect.max_tokens_key] = limits.max_output
    if limits.stop:
        sender.send("stop", limits.stop, Rule.STOP, limits.stop_at)


def _write_cache(request: Request, sender: _Sender) -> None:
    """The routing key, and whether and how long to keep prefixes; at this level only 30 minutes can be said."""
    cache = request.cache
    if cache.key is not None:
        sender.send("prompt_cache_key", cache.key, Rule.PROMPT_CACHE_KEY, ("prompt_cache_key",))
    options: Wire = {}
    if cache.auto is not None:
        options["mode"] = "implicit" if cache.auto else "explicit"
    if cache.ttl is not None:
        options["ttl"] = "30m"
    if options:
        sender.send("prompt_cache_options", options, Rule.PROMPT_CACHE_OPTIONS, cache.at)


def _write_identity(request: Request, sender: _Sender) -> None:
    identity = request.identity
    if identity.end_user is not None:
        user = identity.end_user
        name = "safety_identifier" if sender.takes("safety_identifier") else "user"
        # The ids of Messages clients are long and tell the account: only their hash leaves (mapping.md 11.1). A long
        # `user` of another client has to fit too.
        if request.origin == "messages" or (name == "safety_identifier" and len(user) > END_USER_LENGTH):
            user = hashlib.sha256(user.encode("utf-8", "replace")).hexdigest()
        rule = Rule.SAFETY_IDENTIFIER if identity.end_user_at[-1:] == ("safety_identifier",) else Rule.USER
        sender.send(name, user, rule, identity.end_user_at)
    if identity.metadata:
        sender.send("metadata", identity.metadata, Rule.METADATA, ("metadata",))


def _write_service(request: Request, sender: _Sender) -> None:
    service = request.service
    tier = service.tier
    if request.origin == "messages":
        tier = _TIERS_OF_MESSAGES.get(tier or "")
    elif tier in _TIERS_OF_OTHERS:
        sender.losses.approx(Rule.SERVICE_TIER, ("service_tier",))
        tier = _TIERS_OF_OTHERS[tier]
    if service.speed == "fast":
        if sender.takes("service_tier"):
            if tier is not None:
                sender.losses.approx(Rule.SERVICE_TIER, ("service_tier",))
            tier = "fast"
        else:
            sender.losses.drop(Rule.SPEED, ("speed",))
    if tier is not None and tier != "auto":
        sender.send("service_tier", tier, Rule.SERVICE_TIER, ("service_tier",))


def _write_stream(request: Request, dialect: Dialect, body: Wire) -> None:
    """Usage is always asked for: the proxy needs it, whether the client does or not (mapping.md 13.4)."""
    if not request.stream:
        return
    body["stream"] = True
    if dialect.no_stream_options:
        return
    options: Wire = {"include_usage": True}
    if "continuous_usage_stats" in dialect.fields:
        options["continuous_usage_stats"] = True
    body["stream_options"] = options
