"""System text in the midst of a conversation, for backends that take it only at the start (mapping.md 2.2).

It becomes words of the user inside a tag. The tag's attribute comes from the leading instructions, so that a user's
own text can't imitate it, and is the same in every turn.
"""

import hmac

from proxy.canonical.request import Request

_NO_KEY = b"dragoman system tag"  # which then only guards against accident


def tagged(text: str, tag: str) -> str:
    """`text` as system text inside a user's turn; `tag` is that of `tag_of`."""
    return f'<system id="{tag}">\n{text}\n</system>'


def tag_of(request: Request) -> str:
    """Eight hex digits that a user can't guess."""
    leading = "\n\n".join(part.text for instruction in request.instructions for part in instruction.parts)
    return hmac.new(request.tag_key or _NO_KEY, leading.encode("utf-8", "replace"), "sha256").hexdigest()[:8]
