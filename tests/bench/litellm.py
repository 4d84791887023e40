"""LiteLLM's proxy as a target: installed apart, started as its documentation says, before the same backends.

It gets what makes it work offline and quietly, and nothing that makes it slower: no database, no callbacks, one worker.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from tests.bench.measure import OF_PEERS
from tests.bench.targets import MALLOC, Peers, Target, command, free_port

SLOWNESS = 20
# What it calls a backend of each protocol, and what it adds to the address by itself.
PROVIDERS = {"chat": ("openai/", "/v1"), "responses": ("openai/responses/", "/v1"), "messages": ("anthropic/", "")}
# The same for clients of Messages.
SETTINGS: dict[str, dict[str, bool]] = {
    "chat": {"use_chat_completions_url_for_anthropic_messages": True},
    "responses": {},
    "messages": {},
}
# Nothing is asked of the internet: prices and news are those that it was installed with. Keys of others stay away.
ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
    "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "True",  # on loopback; it has no keys to look at
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "ERROR",
    "NO_PROXY": "127.0.0.1",
}
INHERITED = ("PATH", "HOME", "LANG", "TMPDIR")


def installed_in(environment: Path) -> Peers:
    """`environment`: a virtual environment that has it."""

    @contextmanager
    def litellm(protocol: str, upstream: str, scratch: Path) -> Iterator[Target]:
        name, port = f"litellm-{protocol}", free_port()
        config = scratch / f"{name}.yaml"
        config.write_bytes(config_of(protocol, upstream))
        arguments = [str(environment / "bin" / "litellm"), "--config", str(config), "--host", "127.0.0.1"]
        arguments += ["--port", str(port), "--num_workers", "1", "--telemetry", "False"]
        env = {key: os.environ[key] for key in INHERITED if key in os.environ} | ENVIRONMENT | MALLOC
        with command(name, arguments, env, f"http://127.0.0.1:{port}/health/liveliness", scratch) as pid:
            yield Target("litellm", port, pid, protocol, SLOWNESS, is_peer=True)

    return litellm


def config_of(protocol: str, upstream: str) -> bytes:
    """JSON is YAML."""
    prefix, version = PROVIDERS[protocol]
    reached: dict[str, object] = {"api_base": f"{upstream}{version}", "api_key": "bench"}
    if protocol == "chat":
        reached |= {"use_chat_completions_api": True}  # else clients of Responses are passed on
    models = [
        {"model_name": f"bench-{phase}", "litellm_params": {"model": f"{prefix}bench-{phase}", **reached}}
        for phase in OF_PEERS
    ]
    return orjson.dumps({"model_list": models, "litellm_settings": {"telemetry": False, **SETTINGS[protocol]}})
