"""All names that spans carry, in one place (operations.md 3).

HTTP's are those of the stable conventions, 1.44.0. Those of `gen_ai.*` and `openai.*` are from
open-telemetry/semantic-conventions-genai at ac48b1f9df15 (docs/gen-ai/client-inference.md): it has no release,
everything in it is in development, and names have changed before (`gen_ai.system`, `cache_creation`). What begins with
`dragoman.` is ours.
"""

from collections.abc import Mapping

from proxy.canonical.stop import StopKind

# HTTP, stable
METHOD = "http.request.method"
RESEND_COUNT = "http.request.resend_count"
STATUS = "http.response.status_code"
ROUTE = "http.route"
SCHEME = "url.scheme"
URL_PATH = "url.path"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
ERROR_TYPE = "error.type"
OTHER = "_OTHER"
METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"})

# Generative AI, in development
CONVERSATION_ID = "gen_ai.conversation.id"
OUTPUT_TYPE = "gen_ai.output.type"
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
STREAM = "gen_ai.request.stream"
MAX_TOKENS = "gen_ai.request.max_tokens"
TEMPERATURE = "gen_ai.request.temperature"
TOP_P = "gen_ai.request.top_p"
TOP_K = "gen_ai.request.top_k"
FREQUENCY_PENALTY = "gen_ai.request.frequency_penalty"
PRESENCE_PENALTY = "gen_ai.request.presence_penalty"
SEED = "gen_ai.request.seed"
STOP_SEQUENCES = "gen_ai.request.stop_sequences"
PREVIOUS_ID = "gen_ai.request.previous_response.id"
CHOICE_COUNT = "gen_ai.request.choice.count"
REASONING_LEVEL = "gen_ai.request.reasoning.level"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_STATUS = "gen_ai.response.status"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"  # seconds
INPUT_TOKENS = "gen_ai.usage.input_tokens"  # cached ones included
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_write.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"
DETAILS_EVENT = "gen_ai.client.inference.operation.details"
CHAT, EMBEDDINGS, FETCH = "chat", "embeddings", "fetch_response"

# OpenAI, in development
REQUEST_TIER = "openai.request.service_tier"
RESPONSE_TIER = "openai.response.service_tier"
FINGERPRINT = "openai.response.system_fingerprint"
OPENAI = frozenset({"openai", "azure.ai.openai"})

# Ours
REQUEST_ID = "dragoman.request_id"
CLIENT_PROTOCOL = "dragoman.client_protocol"
BACKEND_PROTOCOL = "dragoman.backend_protocol"
UPSTREAM = "dragoman.upstream"
TENANT = "dragoman.tenant"
ATTEMPT = "dragoman.attempt"
OVERHEAD = "dragoman.overhead_ms"
LOSS_COUNT = "dragoman.loss.count"
LOSS_EVENT = "dragoman.translation.loss"
RETRY_EVENT = "dragoman.retry"
FALLBACK_EVENT = "dragoman.fallback"
FALLBACK_FROM = "dragoman.fallback.from"
FALLBACK_TO = "dragoman.fallback.to"
REASON = "dragoman.reason"
DISCONNECTED_EVENT = "dragoman.client_disconnected"

# By the family of a dialect.
_PROVIDERS: Mapping[str, str] = {
    "openai": "openai",
    "anthropic": "anthropic",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "vertex": "gcp.vertex_ai",
    "gemini": "gcp.gemini",
    "deepseek": "deepseek",
    "groq": "groq",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "xai": "x_ai",
}

# The registry's reasons, total over ours.
FINISH: Mapping[StopKind, str] = {
    "end": "stop",
    "length": "length",
    "tool": "tool_call",
    "stop_sequence": "stop",
    "filter": "content_filter",
    "refusal": "content_filter",
    "pause": "stop",
    "context": "length",
    "compaction": "compaction",
    "max_messages": "length",
    "steered": "stop",
}


def provider(family: str, upstream: str) -> str:
    """The conventions' name of who runs a backend; else the family's, or the configured one of who is not known."""
    return _PROVIDERS.get(family) or (upstream if family == "generic" else family)
