"""The clients of the matrix."""

from collections.abc import Iterable

from tests.e2e.matrix import environments
from tests.e2e.matrix.client import Client, Settings
from tests.harness.wire import Protocol

OPENAI_VARIABLES = {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "{key}"}
ANTHROPIC_VARIABLES = {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "{key}"}
VARIABLES: dict[Protocol, dict[str, str]] = {
    "chat": OPENAI_VARIABLES,
    "responses": OPENAI_VARIABLES,
    "messages": ANTHROPIC_VARIABLES,
}
GPT, CLAUDE = "gpt-5.5", "claude-opus-5-5"
MODELS: dict[Protocol, str] = {"chat": GPT, "responses": GPT, "messages": CLAUDE}

NO_EMBEDDINGS = {("embeddings", "messages"): "404"}
NO_HISTORY = {"stored": "the protocol has none"}
RAW = {"unknown-tool": "hands every call to the program"}
OWN_HISTORY = {"stored": "sends the whole conversation each time"}
NOT_TRIED = {**OWN_HISTORY, "resources": "asks for none", "embeddings": "asks for none"}
ONLY_STRUCTURED = "always answers with an object"

CODEX_CONFIG = """\
model = "{model}"
model_provider = "dragoman"
check_for_update_on_startup = false

[model_providers.dragoman]
name = "Dragoman"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "DRAGOMAN_KEY"
request_max_retries = 1
stream_max_retries = 1
supports_websockets = false

[analytics]
enabled = false
"""
CLAUDE_QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "IS_SANDBOX": "1",
    "CLAUDE_CODE_MAX_RETRIES": "2",
}
BASH = 'Bash {"command": "echo {city} has 21 degrees", "description": "Weather"}'

# Those that send a temperature want a Claude that takes one.
KNOWN_MODELS: dict[Protocol, str] = {**MODELS, "messages": "claude-sonnet-4-6"}
AIDER_QUIET = {
    "AIDER_ANALYTICS": "false",
    "AIDER_CHECK_UPDATE": "false",
    "AIDER_SHOW_RELEASE_NOTES": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
PACKAGES_FOR_MESSAGES = {"LangChain": "langchain-anthropic", "LlamaIndex": "llama-index-llms-anthropic"}
TOOL_SCENARIOS = ("tools", "parallel", "reasoning", "unknown-tool")
LOCAL = "local-model"
# Of Anthropic's, it wants the version in the address.
AI_SDK_VARIABLES: dict[Protocol, dict[str, str]] = {
    **VARIABLES,
    "messages": {**ANTHROPIC_VARIABLES, "ANTHROPIC_BASE_URL": "{url}/v1"},
}
COPILOT_VARIABLES: dict[Protocol, dict[str, str]] = {
    "chat": {"COPILOT_PROVIDER_BASE_URL": "{url}/v1"},
    "responses": {"COPILOT_PROVIDER_BASE_URL": "{url}/v1", "COPILOT_PROVIDER_WIRE_API": "responses"},
    "messages": {"COPILOT_PROVIDER_BASE_URL": "{url}", "COPILOT_PROVIDER_TYPE": "anthropic"},
}
OPENCODE_PACKAGES: dict[Protocol, str] = {
    "chat": "@ai-sdk/openai-compatible",
    "responses": "@ai-sdk/openai",
    "messages": "@ai-sdk/anthropic",
}
OPENCODE_CONFIG = """\
{
  "$schema": "https://opencode.ai/config.json",
  "autoupdate": false,
  "share": "disabled",
  "model": "dragoman/{model}",
  "small_model": "dragoman/{model}",
  "provider": {
    "dragoman": {
      "npm": "{package}",
      "name": "Dragoman",
      "options": {"baseURL": "{url}/v1", "apiKey": "{env:DRAGOMAN_KEY}"},
      "models": {
        "{model}": {"name": "{model}", "tool_call": true, "reasoning": true, "attachment": true,
                    "modalities": {"input": ["text", "image"], "output": ["text"]}}
      }
    }
  }
}
"""
AIDER_VARIABLES: dict[Protocol, dict[str, str]] = {
    "chat": {"OPENAI_API_BASE": "{url}/v1", "OPENAI_API_KEY": "{key}"},
    "messages": {"ANTHROPIC_API_BASE": "{url}", "ANTHROPIC_API_KEY": "{key}"},
}
AIDER_PREFIXES: dict[Protocol, str] = {"chat": "openai", "messages": "anthropic"}
LLM_MODELS = """\
- model_id: dragoman
  model_name: {model}
  api_base: {url}/v1
  api_key_name: dragoman
  supports_tools: true
  supports_schema: true
  vision: true
"""


def _sdks() -> Iterable[Client]:
    sdk, node = environments.SDK, environments.NODE_SDK
    by_openai: tuple[Protocol, ...] = ("chat", "responses")
    for name, environment, driver in (
        ("OpenAI SDK for Python", sdk, "openai_python.py"),
        ("OpenAI SDK for Node", node, "openai_node.mjs"),
    ):
        settings = Settings(OPENAI_VARIABLES)
        for protocol in by_openai:
            keeps = protocol == "responses"
            lacks = RAW if keeps else {**RAW, **NO_HISTORY}
            refused = NO_EMBEDDINGS
            yield Client(name, protocol, environment, driver, settings, GPT, lacks=lacks, refused=refused, quick=True)
    for name, environment, driver, package in (
        ("Anthropic SDK for Python", sdk, "anthropic_python.py", "anthropic"),
        ("Anthropic SDK for Node", node, "anthropic_node.mjs", "@anthropic-ai/sdk"),
    ):
        settings, lacks = Settings(ANTHROPIC_VARIABLES), {**RAW, **NO_HISTORY, "embeddings": "the vendor has none"}
        yield Client(name, "messages", environment, driver, settings, CLAUDE, lacks=lacks, package=package, quick=True)


def _frameworks() -> Iterable[Client]:
    all_three: tuple[Protocol, ...] = ("chat", "responses", "messages")
    two: tuple[Protocol, ...] = ("chat", "responses")
    for name, environment, driver, protocols, lacks in (
        ("LangChain", environments.LANGCHAIN, "langchain_python.py", all_three, {}),
        ("OpenAI Agents SDK", environments.OPENAI_AGENTS, "openai_agents.py", two, {}),
        ("Pydantic AI", environments.PYDANTIC_AI, "pydantic_ai_python.py", all_three, {}),
        ("LiteLLM", environments.LITELLM, "litellm_python.py", all_three, RAW),
        ("LlamaIndex", environments.LLAMAINDEX, "llamaindex_python.py", all_three, RAW),
        ("Instructor", environments.INSTRUCTOR, "instructor_python.py", all_three, STRUCTURED_ONLY),
    ):
        for protocol in protocols:
            settings, model = Settings(VARIABLES[protocol]), MODELS[protocol]
            if name == "Instructor" and protocol == "messages":
                model = KNOWN_MODELS[protocol]
            package = PACKAGES_FOR_MESSAGES.get(name, "") if protocol == "messages" else ""
            lacking = {**NOT_TRIED, **lacks}
            yield Client(name, protocol, environment, driver, settings, model, lacks=lacking, package=package)
    providers: tuple[tuple[str, Protocol, str], ...] = (
        ("Vercel AI SDK (@ai-sdk/openai)", "chat", "own"),
        ("Vercel AI SDK (@ai-sdk/openai)", "responses", "own"),
        ("Vercel AI SDK (@ai-sdk/openai-compatible)", "chat", "compatible"),
        ("Vercel AI SDK (@ai-sdk/anthropic)", "messages", "own"),
    )
    for name, protocol, provider in providers:
        settings = Settings(AI_SDK_VARIABLES[protocol])
        model = LOCAL if provider == "compatible" else MODELS[protocol]
        arguments = (provider,)
        yield Client(
            name, protocol, environments.AI_SDK, "ai_sdk.mjs", settings, model, arguments=arguments, lacks=NOT_TRIED
        )
    yield Client(
        "Claude Agent SDK",
        "messages",
        environments.CLAUDE_AGENT,
        "claude_agent.py",
        Settings(ANTHROPIC_VARIABLES),
        CLAUDE,
        calls=BASH,
        image='[[call Read {"file_path": "{picture}"}]]',
        structured="[[call StructuredOutput {value}]]",
        lacks=NOT_TRIED,
        quiet=CLAUDE_QUIET,
    )


STRUCTURED_ONLY = dict.fromkeys(
    ("text", "stream", "tools", "parallel", "reasoning", "image", "retry", "cancel", "broken", "cut", "unknown-tool"),
    ONLY_STRUCTURED,
)


def _programs() -> Iterable[Client]:
    yield Client(
        "Codex",
        "responses",
        environments.CODEX,
        "codex.py",
        Settings(
            {"DRAGOMAN_KEY": "{key}"},
            {".codex/config.toml": CODEX_CONFIG},
            (
                *("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
                *("--json", "-m", "{model}", "{prompt}"),
            ),
        ),
        GPT,
        calls='exec_command {"cmd": "echo {city} has 21 degrees"}',
        lacks=NOT_TRIED,
        quick=True,
    )
    yield Client(
        "Claude Code",
        "messages",
        environments.CLAUDE_CODE,
        "claude_code.py",
        Settings(
            ANTHROPIC_VARIABLES,
            command=(
                *("claude", "--model", "{model}", "--output-format", "stream-json", "--verbose"),
                *("--dangerously-skip-permissions", "-p", "{prompt}"),
            ),
        ),
        CLAUDE,
        calls=BASH,
        structured="[[call StructuredOutput {value}]]",
        image='[[call Read {"file_path": "{picture}"}]]',
        lacks=NOT_TRIED,
        quiet=CLAUDE_QUIET,
        quick=True,
    )

    for protocol, variables in COPILOT_VARIABLES.items():
        yield Client(
            "GitHub Copilot CLI",
            protocol,
            environments.COPILOT,
            "copilot.py",
            Settings(
                {
                    **variables,
                    "COPILOT_PROVIDER_API_KEY": "{key}",
                    "COPILOT_MODEL": "{model}",
                    "COPILOT_OFFLINE": "true",
                },
                command=("copilot", "--allow-all-tools", "--disable-client-telemetry", "-s", "-p", "{prompt}"),
            ),
            KNOWN_MODELS[protocol],
            calls='bash {"command": "echo {city} has 21 degrees", "description": "Weather"}',
            lacks={**NOT_TRIED, "structured": "has none", "image": "sends none to a provider of one's own"},
        )
    for protocol, package in OPENCODE_PACKAGES.items():
        yield Client(
            "opencode",
            protocol,
            environments.OPENCODE,
            "opencode.py",
            Settings(
                {"DRAGOMAN_KEY": "{key}"},
                {".config/opencode/opencode.json": OPENCODE_CONFIG.replace("{package}", package)},
                ("opencode", "run", "--model", "dragoman/{model}", "--format", "json", "{prompt}"),
            ),
            MODELS[protocol],
            calls='bash {"command": "echo {city} has 21 degrees", "description": "Weather"}',
            lacks={**NOT_TRIED, "structured": "has none", "failure": "asks again without an end"},
            quiet={"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        )
    for protocol, variables in AIDER_VARIABLES.items():
        yield Client(
            "aider",
            protocol,
            environments.AIDER,
            "aider.py",
            Settings(
                variables,
                command=(
                    *("aider", "--model", f"{AIDER_PREFIXES[protocol]}/{{model}}", "--no-git", "--yes-always"),
                    *("--no-pretty", "--no-show-model-warnings", "--message", "{prompt}"),
                ),
            ),
            KNOWN_MODELS[protocol],
            lacks={**NOT_TRIED, **dict.fromkeys(("structured", "image", *TOOL_SCENARIOS), "has text only")},
            quiet=AIDER_QUIET,
            quiet_files={".aider/caches/model_prices_and_context_window.json": '{"none": {}}'},
        )
    yield Client(
        "llm",
        "chat",
        environments.LLM,
        "llm_program.py",
        Settings(
            {"LLM_USER_PATH": "{home}/.llm"},
            {".llm/extra-openai-models.yaml": LLM_MODELS},
            ("llm", "-m", "dragoman", "--key", "{key}", "{prompt}"),
        ),
        GPT,
        lacks=NOT_TRIED,
    )
    yield Client(
        "llm",
        "messages",
        environments.LLM,
        "llm_program.py",
        Settings(
            {**ANTHROPIC_VARIABLES, "LLM_USER_PATH": "{home}/.llm"},
            command=("llm", "-m", "anthropic/{model}", "{prompt}"),
        ),
        KNOWN_MODELS["messages"],
        lacks=NOT_TRIED,
    )


CLIENTS: tuple[Client, ...] = (*_sdks(), *_frameworks(), *_programs())
