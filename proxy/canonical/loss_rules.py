"""What each rule of loss means: one sentence, the levels it is recorded at, and where mapping.md says so.

The table is closed and total, as the list of rules is. `dragoman losses` prints it.
"""

from dataclasses import dataclass

from proxy.canonical.loss import Level, Rule


@dataclass(frozen=True, slots=True)
class About:
    """`levels`: the default ones, the lightest first. `sections`: of mapping.md."""

    levels: tuple[Level, ...]
    sections: tuple[str, ...]
    text: str


def _approx(sections: str, text: str) -> About:
    return About(("approx",), tuple(sections.split()), text)


def _drop(sections: str, text: str) -> About:
    return About(("drop",), tuple(sections.split()), text)


def _refuse(sections: str, text: str) -> About:
    return About(("refuse",), tuple(sections.split()), text)


def _several(levels: tuple[Level, ...], sections: str, text: str) -> About:
    return About(levels, tuple(sections.split()), text)


ABOUT: dict[Rule, About] = {
    Rule.ALLOWED_TOOLS: _approx(
        "6.1", "Only the allowed tools are sent, since the backend knows no choice among some."
    ),
    Rule.ASYNC_TOOL: _refuse("5.1", "A tool whose result may come turns later has no form in the backend's protocol."),
    Rule.AUDIO_IN: _refuse("4.4", "The backend's protocol takes no spoken input."),
    Rule.BAD_ARGS: _approx(
        "4.9 5.2", "Arguments of a call that are no JSON object are wrapped in one, or read as far as they are text."
    ),
    Rule.BUDGET_TOO_SMALL: _approx("8.3", "Thinking is off, since the output limit leaves no room for a budget."),
    Rule.CACHE_TTL: _approx(
        "10.1", "A prompt-cache mark stands elsewhere or lives as long as the backend can nearest say."
    ),
    Rule.CARRIER_BAD: _drop("8.6", "What the client carried for a backend does not open, and is left out."),
    Rule.CITE_REQUEST: _drop(
        "4.3", "The answer will hold no citations, since the backend's protocol can't ask for them."
    ),
    Rule.COMPACTION: _several(
        ("approx", "drop", "refuse"), "11.1 11.2", "A summary in place of a history goes as plain text, or not at all."
    ),
    Rule.CUSTOM_TOOL: _several(
        ("approx", "drop", "refuse"),
        "5.2",
        "A free-text tool becomes a function with one string; its grammar is not enforced, and may not be kept.",
    ),
    Rule.DOC_CITATION: _several(
        ("approx", "drop"), "4.7", "A citation of a place in a document names only the document, or has no form at all."
    ),
    Rule.DOC_TYPE: _refuse("4.3", "The backend takes no document of this type."),
    Rule.DUP_RESULT: _approx("2.6", "Two results of one call are joined."),
    Rule.EMPTY_USER: _approx(
        "2.5", "The last words of the user are empty, which the backend refuses: they say so now."
    ),
    Rule.FILE_CITATION: _drop("4.7", "A citation of a file without a range has no form in the client's protocol."),
    Rule.FILE_ID: _refuse("4.2 4.3", "An id of a file means something only to the vendor that gave it."),
    Rule.FIRST_USER: _approx("2.4", "A turn of the user is put in front of a history that begins with the assistant."),
    Rule.FORCED_CHOICE: _approx("6.2", "A forced tool call and thinking exclude each other: one of them yields."),
    Rule.FOREIGN_REASONING: _several(
        ("approx", "drop"),
        "8.6",
        "Reasoning that another backend made is left out, or becomes text: this one can't read it.",
    ),
    Rule.HOSTED_TOOL: _several(
        ("approx", "drop", "refuse"),
        "5.4 5.5",
        "The backend runs this tool its own way or not at all, or what it did is of no use to another backend.",
    ),
    Rule.IMAGE_DETAIL: _drop("4.2", "How closely to look at an image can't be said in the backend's protocol."),
    Rule.IS_ERROR: _approx("4.5", "The error flag of a tool's result becomes its first words."),
    Rule.JSON_OBJECT: _approx("9.1", "The answer is asked to be JSON in words, since the backend has no such mode."),
    Rule.LATE_ARGS: _approx("13.5", "Arguments that came behind the end of their call are left out."),
    Rule.LOGIT_BAN: _refuse("7.4", "The backend can't ban or force single tokens."),
    Rule.MAX_CLAMP: _several(
        ("approx", "drop"), "7.1 17.2", "The output limit is lowered to the model's own, or the backend takes none."
    ),
    Rule.MID_SYSTEM: _approx(
        "2.2", "A system message between other messages is moved, or marked within the user's turn."
    ),
    Rule.MIN_OUTPUT: _approx("7.1", "The output limit is raised to 16 tokens, the least that the backend takes."),
    Rule.MISSING_RESULT: _approx("2.6", "A call that nobody answered gets a result that says so."),
    Rule.N: _several(("drop", "refuse"), "7.4", "The backend gives one answer, not several to choose from."),
    Rule.ORPHAN_RESULT: _approx("2.6", "A result without its call becomes words of the user."),
    Rule.PARALLEL_ENFORCED: _approx(
        "6.3", "The backend can't be held to one call at a time: further calls are cut off."
    ),
    Rule.PARTICIPANT_NAME: _several(
        ("approx", "drop"), "2.3", "The name of a participant is put before the words, or has no place at all."
    ),
    Rule.PDF_URL_CHAT: _refuse("4.3", "Chat Completions takes a file itself, not its address."),
    Rule.PHASE: _approx("4.1", "Whether a text is commentary or the final answer can't be said in the other protocol."),
    Rule.PREFILL: _approx("2.4", "The model is asked to go on, since it does not continue an answer that was begun."),
    Rule.PREWARM: _approx("7.1", "The backend can't just fill its cache: the proxy answers with nothing itself."),
    Rule.REASONING_OFF: _approx("8.2 8.4", "The model can't stop reasoning: it is asked for as little as it takes."),
    Rule.RESULT_ORDER: _approx("2.6", "Results are moved before other words of the user, right behind their calls."),
    Rule.ROLE_DEVELOPER: _approx("2.1", "A developer message becomes a system message."),
    Rule.ROOT_UNION: _approx(
        "5.1", "A schema that is a choice between objects becomes one object with all their fields."
    ),
    Rule.SAMPLING: _drop("7.2", "The model takes no sampling parameters."),
    Rule.SCHEMA_FALLBACK: _approx(
        "9.3", "The backend can't enforce this schema: a tool or an instruction stands in for it."
    ),
    Rule.SEARCH_RESULT: _approx("4.5 4.6", "A search result becomes plain text."),
    Rule.STOP_EMULATED: _approx("7.3", "The proxy looks for the stop strings itself, and cuts the answer there."),
    Rule.STORE: _approx("11.1", "The backend is asked to store nothing."),
    Rule.STREAM_MISMATCH: _approx("13.2", "The end of a streamed text does not fit what came before."),
    Rule.STRICT_OFF: _approx(
        "5.1 9.1", "The schema is sent as it is and not enforced: it is outside of what the backend enforces."
    ),
    Rule.TEMP_CLAMP: _approx("7.2", "The temperature is lowered to 1."),
    Rule.TEXT_AFTER_CALL: _approx("2.4", "Text that follows a call moves before it."),
    Rule.TEXT_DOC: _several(("approx", "drop"), "4.3", "A text document becomes text."),
    Rule.THINKING_MISSING: _approx("8.7", "Thinking is off, since that of the open turn did not come back."),
    Rule.TOOL_IMAGE: _approx("4.5", "An image or a file in a tool's result moves into a message of the user."),
    Rule.TRANSFORMATIONS: _drop(
        "4.2", "What to do to an image before looking at it can't be said in the backend's protocol."
    ),
    Rule.TYPED_TOOL: _several(
        ("approx", "drop", "refuse"),
        "5.3",
        "A tool that one vendor's models know becomes a function with the same input.",
    ),
    Rule.UNKNOWN_FIELD: _several(("drop", "refuse"), "0.2", "No protocol that is known here has such a field or type."),
    Rule.WEB_SEARCH: _several(
        ("approx", "drop", "refuse"), "5.4", "Web search is asked for as the backend has it, or it has none."
    ),
    Rule.ACCESS_PROGRAMS: _drop("11.1", "Which access programs to use has no place in the backend's protocol."),
    Rule.ALLOWED_CALLERS: _approx("5.1", "Calls that a vendor's own code makes become calls of the model."),
    Rule.AUDIO: _several(
        ("approx", "drop", "refuse"), "4.4", "A spoken answer becomes its transcript, and none can be asked for."
    ),
    Rule.BACKGROUND: _refuse("11.1", "The backend can't go on working after the client has left."),
    Rule.BACKGROUND_OPTIONS: _drop("11.1", "How to work in the background has no place in the backend's protocol."),
    Rule.BEST_OF: _refuse("16.3", "The backend does not choose the best of several answers."),
    Rule.BILLING_POLICY: _drop("11.1", "How to bill is between the client and its own vendor."),
    Rule.BROWSER_STATE: _several(("approx", "drop"), "4.5", "The state of a browser becomes JSON text."),
    Rule.CACHE_CONTROL: _several(
        ("approx", "drop"), "10.1", "A prompt-cache mark is moved to where one may stand, or the backend takes none."
    ),
    Rule.CITATIONS: _drop(
        "4.7",
        "Citations in an earlier answer, which only their vendor knows, or behind a text's end are left out.",
    ),
    Rule.CLEAR_AT: _approx("2.2", "A message that the vendor would clear is left out once it is out of date."),
    Rule.CLIENT_METADATA: _drop("11.1", "What the client tells of itself has no place in the backend's protocol."),
    Rule.CONFIGURATION_UPDATE: _several(
        ("approx", "drop"), "2.2", "Of settings that change during a conversation the last ones hold for all of it."
    ),
    Rule.CONTAINER: _refuse("11.1", "A container stays at the vendor that runs it."),
    Rule.CONTAINER_UPLOAD: _several(
        ("drop", "refuse"), "11.1", "Files of a container stay at the vendor that runs it."
    ),
    Rule.CONTENT: _several(
        ("approx", "drop", "refuse"), "4.2 4.5", "This kind of content can't stand here in the backend's protocol."
    ),
    Rule.CONTEXT: _approx("4.3", "The context of a document becomes a text before it."),
    Rule.CONTEXT_MANAGEMENT: _drop("11.1", "The backend does not edit the history by itself."),
    Rule.CONVERSATION: _refuse("11.1", "The backend keeps no conversations."),
    Rule.DEFER_LOADING: _approx(
        "5.1", "A tool that was to be found first is there from the start, or only once it was found."
    ),
    Rule.DETAIL: _drop("4.3", "How closely to look at a file can't be said in the backend's protocol."),
    Rule.DIAGNOSTICS: _drop("10.1", "Why the prompt cache was missed can't be asked of the backend."),
    Rule.ECHO: _refuse("16.3", "The backend does not repeat the prompt in its answer."),
    Rule.EFFORT: _several(
        ("approx", "drop"), "8.2 8.4", "The model reasons at the nearest level below, or has no levels."
    ),
    Rule.FALLBACK_CREDIT_TOKEN: _drop("11.1", "A credit for an answer that was cut off counts only at its own vendor."),
    Rule.FALLBACKS: _drop("11.1", "Other models to try can't be named to the backend."),
    Rule.FREQUENCY_PENALTY: _drop("7.4", "The backend's protocol has no frequency penalty."),
    Rule.IMAGE: _several(("drop", "refuse"), "4.2", "The backend takes no image in this form."),
    Rule.IMAGE_GENERATION: _several(
        ("drop", "refuse"), "5.4", "The backend makes no images, or the client can't be shown one."
    ),
    Rule.INCLUDE: _drop("11.1", "What the client wants included is not known here."),
    Rule.INFERENCE_GEO: _several(
        ("drop", "refuse"),
        "11.1",
        "Where the model runs can't be demanded of the backend; an operator may leave it out.",
    ),
    Rule.INPUT_EXAMPLES: _approx("5.1", "Examples of a tool's input go into its description, if they are short."),
    Rule.ITEM_REFERENCE: _several(("drop", "refuse"), "11.2", "Nothing is stored that an item could refer to."),
    Rule.LOGIT_BIAS: _drop("7.4", "The backend can't make single tokens more or less likely."),
    Rule.LOGPROBS: _drop("7.4", "How likely tokens are is not told by the backend, or of no use to it."),
    Rule.MAX_TOOL_CALLS: _several(
        ("approx", "drop"), "6.4", "The number of tool calls is limited tool by tool, or can't be limited at all."
    ),
    Rule.MCP_SERVERS: _several(("approx", "drop", "refuse"), "5.4", "The backend does not connect to this MCP server."),
    Rule.METADATA: _drop("11.1", "The metadata of a request has no place in the backend's protocol."),
    Rule.MIN_P: _drop("7.2", "The backend's protocol has no such limit on sampling."),
    Rule.MODALITIES: _several(("drop", "refuse"), "4.4", "The backend answers in text alone."),
    Rule.MODERATION: _several(("drop", "refuse"), "11.1", "The backend does not moderate, or does it its own way."),
    Rule.NAMESPACE: _approx("3.3", "Tools of a group are sent one by one, without what the group says of itself."),
    Rule.OUTPUT_CONFIG: _approx("2.2", "Settings of one turn hold for the whole request."),
    Rule.OUTPUT_CONFIG_FORMAT: _drop("9.2", "The answer does not keep the schema, which the backend does not enforce."),
    Rule.OUTPUT_SCHEMA: _drop("5.1", "What a tool's output looks like can't be said in the backend's protocol."),
    Rule.PARAMETERS: _approx("5.1 17.2", "What the backend refuses is left out of a tool's schema, or said in words."),
    Rule.PREDICTION: _drop("7.4", "The backend can't be given a prediction of its answer."),
    Rule.PRESENCE_PENALTY: _drop("7.4", "The backend's protocol has no presence penalty."),
    Rule.PREVIOUS_RESPONSE_ID: _refuse(
        "11.2", "Nothing is stored that a request could go on from: send the whole history."
    ),
    Rule.PROGRAMMATIC_TOOL_CALLING: _several(
        ("approx", "drop", "refuse"), "5.1 6.1", "Tools are called by the model itself, not by code that it writes."
    ),
    Rule.PROMPT: _refuse("11.1", "A stored prompt template stays at the vendor that holds it."),
    Rule.PROMPT_CACHE_BREAKPOINT: _several(
        ("approx", "drop"), "10.1", "A prompt-cache mark is moved to where one may stand, or the backend takes none."
    ),
    Rule.PROMPT_CACHE_KEY: _drop("10.1", "The backend's prompt cache takes no key."),
    Rule.PROMPT_CACHE_OPTIONS: _drop(
        "10.1", "How to use the prompt cache can't be said to the backend, or would cost for nothing."
    ),
    Rule.REASONING: _several(
        ("drop", "refuse"), "8.4", "The backend does not reason as asked, or not together with tools in this protocol."
    ),
    Rule.REFUSAL: _approx("4.8", "A refusal within the history becomes plain text."),
    Rule.REPETITION_PENALTY: _drop("7.2", "The backend's protocol has no repetition penalty."),
    Rule.RESPONSE_FORMAT: _several(
        ("approx", "drop"), "9.1 9.2", "The answer's schema is narrowed to what the backend enforces, or was not kept."
    ),
    Rule.SAFETY_IDENTIFIER: _drop("11.1", "The backend takes no id of the end user."),
    Rule.SEED: _drop("7.4", "The backend's protocol has no seed."),
    Rule.SERVICE_TIER: _several(
        ("approx", "drop"), "11.3", "The nearest tier of the backend is asked for, or it has none."
    ),
    Rule.SPEED: _drop("11.3", "The backend has no faster mode, or the operator does not allow it."),
    Rule.STOP: _several(("approx", "drop"), "7.3", "The backend takes no stop strings, or none of this kind."),
    Rule.SUFFIX: _refuse("16.3", "The backend does not fill in text between two others."),
    Rule.TASK_BUDGET: _drop("8.1", "The budget of a whole task can't be said in the backend's protocol."),
    Rule.TEMPERATURE: _drop("7.2", "The backend takes no temperature."),
    Rule.TEXT_FORMAT: _several(
        ("approx", "drop"), "9.1 9.2", "The answer's schema is narrowed to what the backend enforces, or was not kept."
    ),
    Rule.THINKING: _several(
        ("approx", "drop"), "8.1 8.3 8.4 8.7", "The client's setting of thinking has no equal at the backend."
    ),
    Rule.THREAD: _refuse("11.2", "The backend keeps no threads: send the whole conversation."),
    Rule.TOOL_CHANGE: _approx("2.2", "Tools that come or go during a conversation are those of the whole request."),
    Rule.TOOL_CHOICE: _several(
        ("approx", "drop", "refuse"), "6.1", "The choice of a tool can't be said so in the backend's protocol."
    ),
    Rule.TOOL_REFERENCE: _several(("approx", "drop"), "4.5", "A reference to a tool becomes its name as text."),
    Rule.TOOL_SEARCH: _several(
        ("approx", "drop", "refuse"), "5.1 5.4", "The backend does not search for tools: all are sent, or those found."
    ),
    Rule.TOP_K: _drop("7.2", "The backend's protocol has no limit on how many tokens to sample from."),
    Rule.TOP_LOGPROBS: _drop("7.4", "The backend does not tell how likely tokens are."),
    Rule.TOP_P: _several(
        ("approx", "drop"), "7.2", "The model takes a temperature or a limit on probability, not both."
    ),
    Rule.TRUNCATION: _drop("11.1", "A history that is too long is an error and not cut."),
    Rule.USER: _drop("11.1", "The backend takes no id of the end user, or only one."),
    Rule.USER_PROFILE: _drop("11.1", "A profile of a user stays at the vendor that holds it."),
    Rule.VERBOSITY: _drop("7.4", "How long to answer can't be said to the backend."),
    Rule.VIDEO_URL: _refuse("4.4", "The backend's protocol takes no video."),
}
