"""The three protocols by the name that `--pairs` and the configuration give them."""

from tests.bench import wire_chat, wire_messages, wire_responses

WIRES = {wire.name: wire for wire in (wire_chat.WIRE, wire_responses.WIRE, wire_messages.WIRE)}
