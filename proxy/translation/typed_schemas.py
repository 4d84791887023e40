"""What the models of a vendor know by heart of its own tools, told to any other model (mapping.md 5.3).

Data: for each tool that a client runs, what it is for and the schema of its arguments. The fields are those of
messages.md 8.2 and 8.3 and of responses.md 4.4 and 10.2; the words are ours, since no vendor publishes its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from proxy.canonical.tools import Schema

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}


def of(required: Mapping[str, object], optional: Mapping[str, object] | None = None) -> Schema:
    """The schema of an object."""
    schema: Schema = {"type": "object", "properties": {**required, **(optional or {})}}
    if required:
        schema["required"] = list(required)
    return schema


def words(*choices: str) -> Schema:
    """The schema of a closed set of strings."""
    return {"type": "string", "enum": list(choices)}


def listed(item: Schema, description: str | None = None) -> Schema:
    """The schema of an array."""
    return told({"type": "array", "items": item}, description)


def told(schema: Schema, description: str | None) -> Schema:
    """A schema with a description."""
    return {**schema, "description": description} if description else schema


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """One tool: its arguments, and what it does."""

    schema: Schema
    description: str


# --- Messages, single tools (messages.md 8.2) ---

BASH = ToolSchema(
    of(
        {},
        {
            "command": told(STRING, "The command to run. Needed unless `restart` is true."),
            "restart": told(BOOLEAN, "True to start the session anew; nothing else is run then."),
        },
    ),
    "Run a command in a bash session. The session lives on between calls: variables, the working directory and "
    "background processes are kept. Commands can't ask for input.",
)

_EDIT_FIELDS: Schema = {
    "path": told(STRING, "The path of the file or directory."),
    "view_range": told(
        {"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 2},
        "For `view` of a file: the first and the last line, counted from 1; -1 as the last means to the end.",
    ),
    "file_text": told(STRING, "For `create`: the content of the new file."),
    "old_str": told(
        STRING, "For `str_replace`: the text to replace. It must occur exactly once, character by character."
    ),
    "new_str": told(STRING, "For `str_replace`: the text to put in its place; left out, the old text is deleted."),
    "insert_line": told(INTEGER, "For `insert`: the line after which to insert; 0 is the start of the file."),
    "insert_text": told(STRING, "For `insert`: the text to insert."),
}
_EDITING = (
    "View, create and edit files. `view` shows a file with line numbers or lists a directory, `create` writes a file, "
    "`str_replace` replaces one piece of text by another, `insert` adds text after a line."
)


def _editor(*commands: str) -> Schema:
    return of({"command": told(words(*commands), "What to do."), "path": _EDIT_FIELDS["path"]}, _EDIT_FIELDS)


TEXT_EDITOR = ToolSchema(_editor("view", "create", "str_replace", "insert"), _EDITING)
TEXT_EDITOR_WITH_UNDO = ToolSchema(
    _editor("view", "create", "str_replace", "insert", "undo_edit"),
    f"{_EDITING} `undo_edit` takes back the last change of a file.",
)

MEMORY = ToolSchema(
    of(
        {"command": told(words("view", "create", "str_replace", "insert", "delete", "rename"), "What to do.")},
        {
            **_EDIT_FIELDS,
            "path": told(STRING, "The path, below /memories. Needed by all commands but `rename`."),
            "old_path": told(STRING, "For `rename`: the path now."),
            "new_path": told(STRING, "For `rename`: the path to be."),
        },
    ),
    "A directory of notes, /memories, that outlives this conversation. `view` lists a directory or shows a file, "
    "`create` writes a file, `str_replace` and `insert` change one, `delete` and `rename` do as they say. Before "
    "starting look here for what earlier work has found, and write down what later work will need.",
)

_POINT: Schema = {"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 2}
_REGION = told(
    {"type": "array", "items": INTEGER, "minItems": 4, "maxItems": 4}, "[x0, y0, x1, y1] of the region, in pixels."
)
_DIRECTION = words("up", "down", "left", "right")

# Actions of the single computer tool by the version that brought them.
COMPUTER_ACTIONS_2024: tuple[str, ...] = (
    "key",
    "type",
    "mouse_move",
    "left_click",
    "left_click_drag",
    "right_click",
    "middle_click",
    "double_click",
    "screenshot",
    "cursor_position",
)
COMPUTER_ACTIONS_2025: tuple[str, ...] = (
    *COMPUTER_ACTIONS_2024,
    "left_mouse_down",
    "left_mouse_up",
    "scroll",
    "hold_key",
    "wait",
    "triple_click",
)
ZOOM = "zoom"


def computer(actions: tuple[str, ...]) -> ToolSchema:
    """The single computer tool, with these actions."""
    fields: Schema = {
        "coordinate": told(_POINT, "[x, y] in pixels from the top left, for actions of the mouse."),
        "text": told(
            STRING, "What to type, or the keys to press, joined by `+`; modifier keys to hold while clicking."
        ),
        "start_coordinate": told(_POINT, "Where `left_click_drag` begins; it ends at `coordinate`."),
    }
    if "scroll" in actions:
        fields["scroll_direction"] = told(_DIRECTION, "For `scroll`.")
        fields["scroll_amount"] = told(INTEGER, "For `scroll`: the number of wheel notches.")
        fields["duration"] = told(NUMBER, "For `wait` and `hold_key`: seconds.")
    if ZOOM in actions:
        fields["region"] = told(_REGION, "For `zoom`: [x0, y0, x1, y1] of the region, in pixels.")
    return ToolSchema(
        of({"action": told(words(*actions), "What to do.")}, fields),
        "Use a computer through its screen, mouse and keyboard. Take a `screenshot` to see the screen, and again after "
        "an action to see what it did.",
    )


# --- Messages, toolsets (messages.md 8.3) ---

_CLICK: Schema = {
    "coordinate": told(_POINT, "[x, y] in pixels; the cursor's place when left out."),
    "text": told(STRING, "Modifier keys to hold, joined by `+`."),
}
_COMPUTER_MEMBERS: dict[str, ToolSchema] = {
    "screenshot": ToolSchema(of({}), "Take a screenshot of the screen."),
    "zoom": ToolSchema(of({"region": _REGION}), "Take a screenshot of a region, enlarged to show details."),
    "left_click": ToolSchema(of({}, _CLICK), "Click the left mouse button."),
    "right_click": ToolSchema(of({}, _CLICK), "Click the right mouse button."),
    "middle_click": ToolSchema(of({}, _CLICK), "Click the middle mouse button."),
    "double_click": ToolSchema(of({}, _CLICK), "Double-click the left mouse button."),
    "triple_click": ToolSchema(of({}, _CLICK), "Triple-click the left mouse button."),
    "left_click_drag": ToolSchema(
        of({"coordinate": _POINT, "start_coordinate": _POINT}, {"text": _CLICK["text"]}),
        "Drag with the left mouse button from `start_coordinate` to `coordinate`.",
    ),
    "mouse_move": ToolSchema(of({"coordinate": _POINT}), "Move the cursor without clicking."),
    "left_mouse_down": ToolSchema(of({}), "Press and hold the left mouse button where the cursor is."),
    "left_mouse_up": ToolSchema(of({}), "Release the left mouse button."),
    "cursor_position": ToolSchema(of({}), "Tell where the cursor is, in pixels."),
    "scroll": ToolSchema(
        of({"scroll_amount": INTEGER, "scroll_direction": _DIRECTION}, _CLICK), "Turn the mouse wheel."
    ),
    "type": ToolSchema(of({"text": STRING}), "Type a text on the keyboard."),
    "key": ToolSchema(
        of({"text": told(STRING, "Keys joined by `+`, such as `ctrl+s`.")}, {"repeat": INTEGER}),
        "Press a key or several together.",
    ),
    "hold_key": ToolSchema(of({"duration": told(INTEGER, "Seconds."), "text": STRING}), "Hold keys down for a while."),
    "wait": ToolSchema(of({"duration": told(INTEGER, "Seconds.")}), "Do nothing for a while."),
}

_TAB: Schema = {"tab_id": told(STRING, "The tab; the active one when left out.")}
_COORDINATE = told(
    of({"type": words("coordinate"), "x": INTEGER, "y": INTEGER}), "A point of the viewport, in its pixels."
)
_REF = told(
    of({"ref": STRING, "type": words("ref")}), "An element, by a reference that `read_page` or `find` has given."
)
_EITHER: Schema = {"anyOf": [_COORDINATE, _REF]}
_POINTED: Schema = {"modifiers": told(STRING, "Keys to hold, joined by `+`."), **_TAB}
_BROWSER_MEMBERS: dict[str, ToolSchema] = {
    "navigate": ToolSchema(
        of({"url": told(STRING, "A URL, or `back`, `forward` or `reload`.")}, _TAB), "Go to a page."
    ),
    "screenshot": ToolSchema(of({}, _TAB), "Take a screenshot of the viewport."),
    "zoom": ToolSchema(of({"region": _REGION}, _TAB), "Take a screenshot of a region, enlarged to show details."),
    "left_click": ToolSchema(of({"target": _EITHER}, _POINTED), "Click a point or an element."),
    "right_click": ToolSchema(of({"target": _EITHER}, _POINTED), "Click with the right mouse button."),
    "middle_click": ToolSchema(of({"target": _EITHER}, _POINTED), "Click with the middle mouse button."),
    "double_click": ToolSchema(of({"target": _EITHER}, _POINTED), "Double-click a point or an element."),
    "triple_click": ToolSchema(of({"target": _EITHER}, _POINTED), "Triple-click, as to select a paragraph."),
    "hover": ToolSchema(of({"target": _EITHER}, _TAB), "Move the cursor to a point or an element without clicking."),
    "left_click_drag": ToolSchema(
        of({"from": _COORDINATE, "target": _COORDINATE}, _TAB), "Press at `from`, drag to `target`, release."
    ),
    "left_mouse_down": ToolSchema(of({"target": _COORDINATE}, _TAB), "Press and hold the left mouse button."),
    "left_mouse_up": ToolSchema(of({"target": _COORDINATE}, _TAB), "Release the left mouse button."),
    "mouse_move": ToolSchema(of({"target": _COORDINATE}, _TAB), "Move the cursor to a point without clicking."),
    "scroll": ToolSchema(
        of(
            {"scroll_direction": _DIRECTION, "target": _COORDINATE},
            {"scroll_amount": told(INTEGER, "Wheel notches, 1 to 10; 3 when left out."), **_TAB},
        ),
        "Turn the mouse wheel at a point.",
    ),
    "scroll_to": ToolSchema(of({"target": _REF}, _TAB), "Scroll an element into view."),
    "type": ToolSchema(of({"text": STRING}, _TAB), "Type a text where the focus is."),
    "key": ToolSchema(
        of({"text": told(STRING, "Keys joined by `+`; spaces part presses.")}, {"repeat": INTEGER, **_TAB}),
        "Press a key or several together.",
    ),
    "hold_key": ToolSchema(
        of({"duration": told(NUMBER, "Seconds."), "text": STRING}, _TAB), "Hold keys down for a while."
    ),
    "wait": ToolSchema(of({"duration": told(NUMBER, "Seconds.")}, _TAB), "Do nothing for a while."),
    "read_page": ToolSchema(
        of(
            {},
            {
                "depth": INTEGER,
                "filter": words("all", "interactive"),
                "ref": told(STRING, "The element whose subtree to give; the whole page when left out."),
                **_TAB,
            },
        ),
        "Give the page as a tree of elements, with references to use as targets.",
    ),
    "find": ToolSchema(of({"query": STRING}, _TAB), "Find elements by a description in words."),
    "get_page_text": ToolSchema(of({}, _TAB), "Give the visible text of the page."),
    "form_input": ToolSchema(
        of({"target": _REF, "value": {"anyOf": [STRING, NUMBER, BOOLEAN]}}, _TAB),
        "Set the value of a form's element; true or false for a checkbox.",
    ),
    "file_upload": ToolSchema(
        of({"target": _REF}, {"document_ids": listed(STRING), "paths": listed(STRING), **_TAB}),
        "Put files into a form's file element; `paths` or `document_ids` is needed.",
    ),
    "read_console": ToolSchema(of({}, _TAB), "Give what the page wrote to the console since the last call."),
    "read_network": ToolSchema(of({}, _TAB), "Give the network requests of the page since the last call."),
    "javascript_exec": ToolSchema(
        of({"text": told(STRING, "The code. Its last expression is the result; no `return`.")}, _TAB),
        "Run JavaScript in the page.",
    ),
    "new_tab": ToolSchema(of({}), "Open an empty tab and give its tab_id."),
    "list_tabs": ToolSchema(of({}), "List the open tabs."),
    "switch_tab": ToolSchema(of({"tab_id": STRING}), "Make a tab the active one."),
    "close_tab": ToolSchema(of({"tab_id": STRING}), "Close a tab."),
}
MEMBERS: dict[str, dict[str, ToolSchema]] = {"computer": _COMPUTER_MEMBERS, "browser": _BROWSER_MEMBERS}
DISABLED_MEMBERS = frozenset({"file_upload", "read_console", "read_network", "javascript_exec"})


# --- Responses (responses.md 4.4, 10.2) ---

SHELL = ToolSchema(
    of(
        {"commands": listed(STRING, "The commands, run in this order.")},
        {
            "timeout_ms": told(INTEGER, "Milliseconds that the commands may take."),
            "max_output_length": told(INTEGER, "Characters of output to give back of each command."),
        },
    ),
    "Run commands in a shell and give back the output and the exit code of each.",
)
LOCAL_SHELL = ToolSchema(
    of(
        {"command": listed(STRING, "The program and its arguments, one a string.")},
        {
            "env": {
                "type": "object",
                "additionalProperties": STRING,
                "description": "Environment variables to set.",
            },
            "working_directory": told(STRING, "Where to run it."),
            "timeout_ms": told(INTEGER, "Milliseconds that it may take."),
            "user": told(STRING, "The user to run it as."),
        },
    ),
    "Run a program and give back its output.",
)
APPLY_PATCH = ToolSchema(
    of(
        {
            "type": told(words("create_file", "update_file", "delete_file"), "What to do with the file."),
            "path": told(STRING, "The path of the file, relative to the workspace."),
        },
        {
            "diff": told(
                STRING,
                "The change; not for delete_file. For create_file the whole content, with `+` before every line. For "
                "update_file sections that begin with a line `@@`, which may name the function or class that the "
                "section is in, and go on with lines marked by their first character: ` ` keeps a line, `-` removes "
                "it, `+` adds one. Put about three kept lines around a change; no line numbers, no file headers.",
            )
        },
    ),
    "Create, change or delete one file by a diff.",
)

_AT: Schema = {"x": INTEGER, "y": INTEGER}
_KEYS = listed(STRING, "Keys to hold meanwhile.")
# Action -> its needed fields and the others.
_ACTIONS: dict[str, tuple[Schema, Schema]] = {
    "click": ({"button": words("left", "right", "wheel", "back", "forward"), **_AT}, {"keys": _KEYS}),
    "double_click": (_AT, {"keys": _KEYS}),
    "drag": ({"path": listed(of(_AT))}, {"keys": _KEYS}),
    "keypress": ({"keys": listed(STRING, "Keys to press together.")}, {}),
    "move": (_AT, {"keys": _KEYS}),
    "screenshot": ({}, {}),
    "scroll": ({**_AT, "scroll_x": INTEGER, "scroll_y": INTEGER}, {"keys": _KEYS}),
    "type": ({"text": STRING}, {}),
    "wait": ({}, {}),
}
_ACTION: Schema = {
    "anyOf": [of({"type": words(name), **needed}, others) for name, (needed, others) in _ACTIONS.items()]
}
_USING = "Use a computer through its screen, mouse and keyboard. Coordinates are pixels. The result is a screenshot."
COMPUTER_BATCH = ToolSchema(of({"actions": listed(_ACTION, "What to do, in this order.")}), _USING)
COMPUTER_PREVIEW = ToolSchema(of({"action": _ACTION}), _USING)

TOOL_SEARCH = ToolSchema(
    of({"query": told(STRING, "What the tool should be able to do.")}),
    "Search for tools that are not loaded yet. Tools that are found can be called afterwards.",
)


# --- whether arguments have the form that a client's own item needs ---

_KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def fits(value: object, schema: Schema) -> bool:
    """Whether a value has the form of one of the schemas above. Fields that they don't know are of no matter."""
    variants = schema.get("anyOf")
    if isinstance(variants, list):
        return any(fits(value, variant) for variant in variants)
    if type(value) not in _KINDS[str(schema["type"])]:
        return False
    choices, items = schema.get("enum"), schema.get("items")
    if isinstance(choices, list) and value not in choices:
        return False
    if type(value) is list:
        return not isinstance(items, dict) or all(fits(item, items) for item in value)
    if type(value) is dict:
        return _fields_fit(value, schema)
    return True


def _fields_fit(value: dict[str, object], schema: Schema) -> bool:
    properties, required = schema.get("properties"), schema.get("required")
    if isinstance(required, list) and any(name not in value for name in required):
        return False
    if not isinstance(properties, dict):
        return True
    return all(fits(value[name], properties[name]) for name in value.keys() & properties.keys())
