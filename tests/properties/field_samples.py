"""Sample values for the fields of requests, where their types say too little, and the fields that mean nothing.

A key is the name of a field, or of a type and a field where one name has several meanings. A field without samples is
tried with every word of its closed set, or with a small value of its kind.
"""

from tests.harness.wire import Json, Protocol

PNG = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0xLjQ="
SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: dict[Protocol, list[Json]] = {
    "chat": [
        {"type": "function", "function": {"name": "look", "parameters": SCHEMA}},
        {"type": "custom", "custom": {"name": "write"}},
    ],
    "responses": [
        {"type": "function", "name": "look", "parameters": SCHEMA, "strict": False},
        {"type": "custom", "name": "write"},
    ],
    "messages": [{"name": "look", "input_schema": SCHEMA}],
}
USER: Json = {"role": "user", "content": "hi"}
CHAT_CALL: Json = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
MESSAGES_CALL: Json = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}

# A value of each kind.
SMALLEST: dict[object, list[Json]] = {
    str: ["some words"],
    int: [7],
    float: [0.5],
    bool: [True, False],
    object: ["anything"],
}

# The smallest object of a type, where that is more than its needed fields with a sample each.
MINIMAL: dict[str, Json] = {
    "CompletionCreateParamsBase": {"model": "m", "messages": [USER]},
    "ResponseCreateParamsBase": {"model": "m", "input": [USER]},
    "MessageCreateParamsBase": {"model": "m", "max_tokens": 5000, "messages": [USER]},
    "ChatCompletionAssistantMessage": {"role": "assistant", "content": "I will"},
    "ChatCompletionToolMessage": {"role": "tool", "tool_call_id": "call_1", "content": "done"},
    "FileFile": {"file_data": PDF},
    "EasyInputMessage": {"role": "assistant", "content": "I will"},
    "ResponseInputImage": {"type": "input_image", "image_url": PNG, "detail": "auto"},
    "ResponseInputImageContent": {"type": "input_image", "image_url": PNG},
    "ResponseInputFile": {"type": "input_file", "file_data": PDF},
    "ResponseInputFileContent": {"type": "input_file", "file_data": PDF},
    "ResponseComputerToolCallOutputScreenshot": {"type": "computer_screenshot", "image_url": PNG},
    "FunctionCallOutput": {"type": "function_call_output", "call_id": "call_1", "output": "done"},
    "ResponseCustomToolCallOutput": {"type": "custom_tool_call_output", "call_id": "call_2", "output": "done"},
    "ToolChoiceCustom": {"type": "custom", "name": "write"},
    "ToolResultBlock": {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"},
    "SystemMessage": {"role": "system", "content": "be brief"},
    "CitationsConfig": {"enabled": True},
    "ToolChangeToolDefinition": {"type": "tool_definition", "definition": {"name": "seek", "input_schema": SCHEMA}},
}

SAMPLES: dict[str, list[Json]] = {
    "model": ["m"],
    "name": ["look"],
    "messages": [[{"role": "user", "content": "hello"}]],
    "ResponseCreateParamsBase.input": ["hello", [{"role": "user", "content": "hello"}]],
    "logit_bias": [{"17": 5}, {"17": 100}],
    "include": [["message.output_text.logprobs"], ["file_search_call.results"]],
    "previous_response_id": [],  # refused as not found, whatever the backend
    "url": ["https://e.test/a"],
    "ImageURL.url": ["https://e.test/a.png", PNG],
    "image_url": ["https://e.test/a.png"],
    "file_url": ["https://e.test/a.pdf"],
    "file_data": [PDF],
    "Base64ImageSource.data": ["iVBORw0KGgo="],
    "Base64PDFSource.data": ["JVBERi0xLjQ="],
    "schema": [SCHEMA],
    "parameters": [SCHEMA],
    "input_schema": [SCHEMA],
    "arguments": ['{"city":"Oslo"}'],
    "budget_tokens": [1500],
    "ChatCompletionNamedToolChoiceCustom.custom": [{"name": "write"}],
    "ChatCompletionAllowedTools.tools": [[{"type": "function", "function": {"name": "look"}}]],
    "ToolChoiceAllowed.tools": [[{"type": "function", "name": "look"}]],
    "tool_use_id": ["toolu_1"],
}

# What a parent's list holds before an object of a type, and behind one.
BEFORE: dict[str, list[Json]] = {
    "ChatCompletionToolMessage": [USER, {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]}],
    "ChatCompletionFunctionMessage": [
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
    ],
    "FunctionCallOutput": [
        USER,
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
    ],
    "ResponseCustomToolCallOutput": [
        USER,
        {"type": "custom_tool_call", "call_id": "call_2", "name": "write", "input": "words"},
    ],
    "UserMessage": [USER, {"role": "assistant", "content": [MESSAGES_CALL]}],
}
BEHIND: dict[str, list[Json]] = {"messages": [USER], "input": [USER]}

# Fields that others need beside them.
BESIDE: dict[str, Json] = {
    "CompletionCreateParamsBase.tool_choice": {"tools": TOOLS["chat"]},
    "CompletionCreateParamsBase.parallel_tool_calls": {"tools": TOOLS["chat"]},
    "CompletionCreateParamsBase.function_call": {"functions": [{"name": "look", "parameters": SCHEMA}]},
    "ResponseCreateParamsBase.tool_choice": {"tools": TOOLS["responses"]},
    "ResponseCreateParamsBase.parallel_tool_calls": {"tools": TOOLS["responses"]},
    "ResponseCreateParamsBase.top_logprobs": {"include": ["message.output_text.logprobs"]},
    "MessageCreateParamsBase.tool_choice": {"tools": TOOLS["messages"]},
    "MessageCreateParamsBase.messages": {"tools": TOOLS["messages"]},
}

# Fields of the whole request that the sheets or other servers have and the SDKs' types lack.
BEYOND_THE_TYPES: dict[Protocol, dict[str, list[Json]]] = {
    "chat": {
        "top_k": [7],
        "min_p": [0.5],
        "repetition_penalty": [1.5],
        "thinking": [{"type": "enabled", "budget_tokens": 1500}],
        "reasoning": [{"effort": "low"}, {"max_tokens": 1500}, {"enabled": False}],
        "enable_thinking": [False],
        "chat_template_kwargs": [{"enable_thinking": False}, {"another": 1}],
    },
    "responses": {
        "client_metadata": [{"a": "b"}],
        "multi_agent": [{"enabled": True}],
        "presence_penalty": [0.5],
        "frequency_penalty": [0.5],
    },
    "messages": {
        "output_format": [{"type": "json_schema", "schema": {**SCHEMA, "additionalProperties": False}}],
    },
}

DISABLED = ("FileUpload", "ReadConsole", "ReadNetwork", "JavascriptExec")
_BOTH = (
    "Screenshot Zoom LeftClick RightClick MiddleClick DoubleClick TripleClick LeftClickDrag LeftMouseDown LeftMouseUp"
)
_BOTH += " MouseMove Scroll Type Key HoldKey Wait"
_BROWSER = " Navigate Hover ScrollTo ReadPage Find GetPageText FormInput NewTab ListTabs SwitchTab CloseTab"
MEMBERS = {"Computer": f"{_BOTH} CursorPosition".split(), "Browser": (_BOTH + _BROWSER).split()}

# Values that say what an absent field says.
DEFAULTS: dict[str, list[Json]] = {
    "pause_after_compaction": [False],
    "stream": [False],
    "store": [False],
    "background": [False],
    "logprobs": [False],
    "modalities": [["text"]],
    "parallel_tool_calls": [True],  # toward Messages, where only its contrary can be said
    "function_call": ["auto"],
    "service_tier": ["auto"],
    "speed": ["standard"],
    "truncation": ["disabled"],
    "include_usage": [False],
    "response_format": [{"type": "text"}],
    "format": [{"type": "text"}],
    "ResponseConfigurationUpdateItemParam.text": [{"format": {"type": "text"}}],
    "detail": ["auto"],
    "async": [False],
    "defer_loading": [False],
    "allowed_callers": [["direct"]],
    "caller": [{"type": "direct"}],
    "strict": [False],
    "Tool.type": ["custom"],
    "is_error": [False],
    "enabled": [False],
    "enable_zoom": [False],
    "user_location": [{"type": "approximate"}, {"type": "approximate", "approximate": {}}],  # nothing is known
    "external_web_access": [True],
    "search_content_types": [["text"]],
    "response_inclusion": ["full"],
    "execution": ["server"],
    "environment": [{"type": "local"}],
    # Members of toolsets are there unless they are disabled; four are not there unless they are enabled.
    **{f"{family}{member}Config.enabled": [True, False] for family, members in MEMBERS.items() for member in members},
    **{f"Browser{member}Config.enabled": [False] for member in DISABLED},
    **{f"Browser{member}Config.defer_loading": [True, False] for member in DISABLED},
    "clear_at": ["never"],
    "context": ["auto"],
    "mode": ["standard"],
    "thinking": [{"type": "adaptive"}],  # without an effort it is the model's own default (mapping.md 8.4)
    "prewarm": [False],
    # What a mark without a lifetime has anyway.
    "CacheControlEphemeral.ttl": ["5m"],
    "PromptCacheBreakpoint.ttl": ["30m"],
    "FilePromptCacheBreakpoint.ttl": ["30m"],
    "PromptCacheOptions.mode": ["explicit"],  # no mark that the client did not make, and none is made
    # One text is the same in a list of its own.
    "content": [[{"text": "some words", "type": "text"}]],
}

# Fields that tell another backend nothing.
MEANINGLESS: dict[str, str] = {
    **dict.fromkeys(
        (
            "AdditionalTools.id",
            "ApplyPatchCall.id",
            "ApplyPatchCallOutput.id",
            "ComputerCallOutput.id",
            "EasyInputMessage.id",
            "FunctionCallOutput.id",
            "ResponseConfigurationUpdateItemParam.id",
            "ResponseCustomToolCall.id",
            "ResponseCustomToolCallOutput.id",
            "ResponseFunctionToolCall.id",
            "ResponseOutputMessage.id",
            "ShellCall.id",
            "ShellCallOutput.id",
        ),
        "ids of items are never sent to another backend (mapping.md 3.4)",
    ),
    "status": "an item that comes back is complete, and an unfinished output is no error (4.5)",
    "FunctionCallOutput.name": "the call that it answers has the name",
    "FunctionCallOutput.namespace": "the call that it answers has the namespace",
    "ToolResultBlock.toolset_name": "the call that it answers has the toolset",
    "ChatCompletionAssistantMessage.annotations": "no field of requests: clients send whole answers back",
    "ShellCallOutput.max_output_length": "the call that it answers has the length",
    "include_obfuscation": "the proxy does not pad (11.1)",
    "eager_input_streaming": "how fast arguments come, not what they are (5.1)",
    "betas": "forwarded to Messages only, features are mapped one by one (11.1)",
    "JSONSchema.strict": "Messages enforces every schema (9.1)",
    "ResponseFormatTextJSONSchemaConfig.strict": "Messages enforces every schema (9.1)",
}

# Fields that say nothing to one model alone, by its name.
SAID_BY_THE_MODEL: dict[str, dict[str, list[Json]]] = {
    # It thinks only when it is told to.
    "claude-sonnet-4-5": {
        "reasoning_effort": ["none"],
        "effort": ["none"],
        "enable_thinking": [False],
        "chat_template_kwargs": [{"enable_thinking": False}],
        "reasoning": [{"enabled": False}],
    },
    # It never thinks, and its prefixes are cached unasked, for as long as the shorter mark says.
    "gpt-4.1": {
        "cache_control": [{"type": "ephemeral"}],
        "effort": ["none"],
        "thinking": [{"type": "disabled"}, {"type": "between_tools"}],
    },
}
