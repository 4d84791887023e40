"""The clients of the matrix."""

from tests.e2e.matrix import environments
from tests.e2e.matrix.client import Client, Settings

OPENAI_VARIABLES = {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "{key}"}
ANTHROPIC_VARIABLES = {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "{key}"}
GPT, CLAUDE = "gpt-5.5", "claude-opus-5-5"
NOT_IN_PROTOCOL = "the vendor has none"
RAW = {"unknown-tool": "hands every call to the program"}
NO_RESOURCES = {"resources": "asks for none", "embeddings": "asks for none"}
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

CLIENTS: tuple[Client, ...] = (
    Client(
        "OpenAI SDK, Python",
        "chat",
        environments.SDK,
        "openai_python.py",
        Settings(OPENAI_VARIABLES),
        GPT,
        lacks=RAW,
        refused={("embeddings", "messages"): "404"},
        quick=True,
    ),
    Client(
        "OpenAI SDK, Python",
        "responses",
        environments.SDK,
        "openai_python.py",
        Settings(OPENAI_VARIABLES),
        GPT,
        lacks=RAW,
        refused={("embeddings", "messages"): "404"},
        quick=True,
    ),
    Client(
        "Anthropic SDK, Python",
        "messages",
        environments.SDK,
        "anthropic_python.py",
        Settings(ANTHROPIC_VARIABLES),
        CLAUDE,
        lacks={**RAW, "embeddings": NOT_IN_PROTOCOL},
        quick=True,
    ),
    Client(
        "OpenAI SDK, Node",
        "chat",
        environments.NODE_SDK,
        "openai_node.mjs",
        Settings(OPENAI_VARIABLES),
        GPT,
        lacks=RAW,
        refused={("embeddings", "messages"): "404"},
        quick=True,
    ),
    Client(
        "OpenAI SDK, Node",
        "responses",
        environments.NODE_SDK,
        "openai_node.mjs",
        Settings(OPENAI_VARIABLES),
        GPT,
        lacks=RAW,
        refused={("embeddings", "messages"): "404"},
        quick=True,
    ),
    Client(
        "Anthropic SDK, Node",
        "messages",
        environments.NODE_SDK,
        "anthropic_node.mjs",
        Settings(ANTHROPIC_VARIABLES),
        CLAUDE,
        lacks={**RAW, "embeddings": NOT_IN_PROTOCOL},
        quick=True,
    ),
    Client(
        "Codex",
        "responses",
        environments.CODEX,
        "codex.py",
        Settings(
            {"CODEX_HOME": "{home}/.codex", "DRAGOMAN_KEY": "{key}"},
            {".codex/config.toml": CODEX_CONFIG},
            (
                "codex",
                "exec",
                "--skip-git-repo-check",
                "--dangerously-bypass-approvals-and-sandbox",
                "--json",
                "-m",
                "{model}",
                "{prompt}",
            ),
        ),
        GPT,
        calls='exec_command {"cmd": "echo {city} has 21 degrees"}',
        lacks=NO_RESOURCES,
        quick=True,
    ),
    Client(
        "Claude Code",
        "messages",
        environments.CLAUDE_CODE,
        "claude_code.py",
        Settings(
            {**ANTHROPIC_VARIABLES, "CLAUDE_CONFIG_DIR": "{home}/.claude"},
            command=(
                "claude",
                "--model",
                "{model}",
                "--output-format",
                "stream-json",
                "--verbose",
                "--dangerously-skip-permissions",
                "-p",
                "{prompt}",
            ),
        ),
        CLAUDE,
        calls='Bash {"command": "echo {city} has 21 degrees", "description": "Weather"}',
        structured="[[call StructuredOutput {value}]]",
        image='[[call Read {"file_path": "{picture}"}]]',
        lacks=NO_RESOURCES,
        quiet=CLAUDE_QUIET,
        quick=True,
    ),
)
