"""The wire protocols, one folder each; pure functions and small state machines, no I/O.

A folder that can be a backend (`chat`, `responses`, `messages`) offers, in its `__init__`:

    read_request(wire, losses) -> Request            raises Rejected (INVALID names the field)
    write_request(request, target, losses) -> dict   of a prepared request, see below
    read_reply(wire, spelling, dialect, losses) -> Reply     raises Rejected for an error inside a 200
    write_reply(reply, context) -> bytes
    StreamReader(emit, spelling, dialect, losses)    .feed(wire, event_name) .done() .end()
    StreamWriter(context)                            .write(events) -> bytes
    read_error(status, wire, text) -> Error          the backend's error answer
    write_error(error, request_id) -> (status, dict) the client's error answer

`completions` is only ever a client's protocol and lacks the backend half. No folder imports another's.

What readers of requests give: leading system and developer messages as `instructions`, later ones as turns of
that role; tool results as parts of user turns in the order they came; paths in the client's terms. They record
what no other protocol could ever carry; they run only when the protocols differ.

What writers of requests get: the translation layer has prepared the request for this target, so that a rule which
holds for several protocols lives there once. After each run of assistant turns with calls stands one user turn
that holds exactly one result a call, in call order (unless that run is the last); orphans are text; call ids and
tool names are spelled for the backend and namespaces joined; tools and their schemas, tool policy, sampling,
reasoning, limits and output format hold only what this target's protocol and model accept. Toward Chat and
Responses, error flags, search results and text documents have become text. Writers shape turns and write fields.
"""
