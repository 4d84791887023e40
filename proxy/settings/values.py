"""Single values of the configuration file: what each takes, as types for the models of `schema.py`."""

import math
import re
from base64 import urlsafe_b64decode
from dataclasses import dataclass
from datetime import UTC, date, datetime
from ipaddress import ip_network
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import (
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    SecretBytes,
    SecretStr,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticUseDefault, core_schema

from proxy.canonical.loss import Rule
from proxy.settings.losses import LOSS_MODES, LossPolicy, parse_loss
from proxy.settings.snapshot import Address
from proxy.settings.spelling import did_you_mean
from proxy.settings.tenants import Network
from proxy.settings.units import parse_duration, parse_size
from proxy.translation.envelope import KEY_BYTES
from proxy.translation.profiles import NAMES as PROFILE_NAMES

_VERSION = r"v\d\w*|backend-api"
KEY_ID = re.compile(r"[0-9a-hjkmnp-tv-z]{12}")  # Crockford's base32 in lower case: without i, l, o and u
_HEADER = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_TENANT = r"[a-z0-9-]{1,40}"
_DECIMAL = r"\d{1,12}(?:\.\d{1,12})?"
_REDIS = r"(?:redis|rediss|unix)://\S+"
_STORE = rf"none:|memory:|sqlite:[^\s?#]+|postgres(?:ql)?://\S+|{_REDIS}"
_SHORTEST_TOKEN = 16
NOT_YET = "not supported yet by this version"


def only(*supported: object) -> BeforeValidator:
    """Refuse every value but those that this version acts on."""

    def check(value: object) -> object:
        # As text, since an override from the environment is one.
        if str(value) not in map(str, supported):
            raise ValueError(f"{NOT_YET}: only {' or '.join(map(str, supported))} is")
        return value

    return BeforeValidator(check)


def parse_address(value: object) -> Address:
    host, colon, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    bracketed = host.startswith("[") and host.endswith("]")
    plain = host[1:-1] if bracketed else host
    if not (plain and colon and port.isascii() and port.isdigit() and int(port) < 65536):
        raise ValueError("must be host:port, such as 127.0.0.1:8080 or [::1]:8080")
    if ":" in plain and not bracketed:
        raise ValueError("an IPv6 address needs brackets, such as [::1]:8080")
    return Address(plain, int(port))


def _base_url(value: object) -> str:
    """The root that endpoints are appended to. Most versions are `/v1`, so that is what a bare host gets, unless the
    version is in the query, as at Azure, or there is none, as behind a ChatGPT account."""
    parts = urlsplit(value) if isinstance(value, str) else urlsplit("")
    try:
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != -1
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("must be an http or https address with a host, such as https://api.example.com")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must hold no user or password: use api_key or headers")
    if parts.fragment or not re.fullmatch(r"(api-version=[\w.-]+)?", parts.query):
        raise ValueError("must hold no fragment, and no query but api-version")
    path = parts.path.rstrip("/")
    if parts.query:
        return f"{parts.scheme}://{parts.netloc}{path}?{parts.query}"
    if not any(re.fullmatch(_VERSION, segment) for segment in path.split("/")):
        path += "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


def _glob(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a pattern, such as gpt-* or *")
    # A set that is not closed would silently match its own text; possessive, since `[]` closes nothing.
    if "[" in re.sub(r"\[!?+]?+[^]]*]", "", value):
        raise ValueError(f"{value!r} is not a pattern: its '[' is not closed")
    return value


def parse_secret(value: object) -> SecretStr:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text that is not empty")
    if not value.isascii() or not value.isprintable():
        raise ValueError("holds a character that can't stand in a header")
    return SecretStr(value)


def _carrier_key(value: object) -> SecretBytes:
    """32 bytes; `openssl rand -hex 32` and `openssl rand -base64 32` both make one."""
    text = value if isinstance(value, str) else ""
    try:
        key = bytes.fromhex(text) if len(text) == 2 * KEY_BYTES else urlsafe_b64decode(_padded(text))
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ValueError(f"must be {KEY_BYTES} bytes in hex or base64, as `openssl rand -hex {KEY_BYTES}` prints")
    return SecretBytes(key)


def _padded(text: str) -> str:
    standard = text.rstrip("=").replace("+", "-").replace("/", "_")
    return standard + "=" * (-len(standard) % 4)


def _entry_name(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(_NAME, value):
        raise ValueError("must be a short name of letters, digits, '.', '_' and '-'")
    return value


def _header_name(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(_HEADER, value):
        raise ValueError("is not a header's name")
    if value.lower() in ("connection", "content-length", "content-type", "host", "transfer-encoding"):
        raise ValueError("can't be set: it belongs to each request")
    return value.lower()


def _dialect(value: object) -> dict[str, Any]:
    if isinstance(value, str):
        return {"base": value}
    if isinstance(value, dict) and isinstance(value.get("base"), str):
        return value
    raise ValueError("must be a name, or {base: name, flag: value, …}")


def _profile_name(value: object) -> str:
    """The name of a row of the table of models."""
    if value not in PROFILE_NAMES:
        raise ValueError(f"no model that is known is called {value!r}{did_you_mean(value, PROFILE_NAMES)}")
    return str(value)


def _commit_after(value: object) -> float | Literal["never"]:
    return "never" if value == "never" else parse_duration(value)


def _tenant_name(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(_TENANT, value):
        raise ValueError("must be 1 to 40 of a-z, 0-9 and '-': it is a label of metrics")
    return value


def _key_id(value: object) -> str:
    if isinstance(value, int | float):
        raise ValueError("must stand in quotes: YAML takes it for a number")
    if not isinstance(value, str) or not KEY_ID.fullmatch(value):
        raise ValueError("must be the 12 characters behind 'drg_' of a key that `dragoman keys new` made")
    return value


def _key_hash(value: object) -> tuple[Literal["hmac-sha256", "sha256"], bytes]:
    """The method and the digest."""
    text = value if isinstance(value, str) else ""
    found = re.fullmatch(r"(hmac-sha256|sha256):([0-9a-f]{64})", text)
    if found is None:
        raise ValueError("must be hmac-sha256: or sha256: and 64 hex digits, as `dragoman keys new` prints")
    return "hmac-sha256" if found[1] == "hmac-sha256" else "sha256", bytes.fromhex(found[2])


def parse_moment(value: object) -> float:
    """Unix seconds of an RFC 3339 time, or of a day's beginning in UTC."""
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError("must be a time such as 2027-01-15T00:00:00Z, or a day such as 2027-01-15") from None
    if moment.tzinfo is None:
        if len(str(value)) > len("2027-01-15"):
            raise ValueError("must say its zone, such as 2027-01-15T00:00:00Z")
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def _day(value: object) -> str:
    try:
        return date.fromisoformat(value if isinstance(value, str) else "").isoformat()
    except ValueError:
        raise ValueError("must be a day such as 2026-12-01") from None


def _time_zone(value: object) -> str:
    try:
        return ZoneInfo(value if isinstance(value, str) else "").key
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{value!r} is no time zone, such as UTC or Europe/Berlin") from None


def _usd(value: object) -> int:
    """Micro-dollars, rounded up: what costs something never counts as nothing."""
    if isinstance(value, str):  # it may have come from the environment
        value = float(value) if re.fullmatch(_DECIMAL, value) else None
    if type(value) not in (int, float) or not isinstance(value, int | float) or not 0 <= value <= 10**9:
        raise ValueError("must be US dollars, from 0 to a thousand million")
    return math.ceil(round(value * 1e6, 3))


def _ip_network(value: object) -> Network:
    try:
        return ip_network(value if isinstance(value, str) else "")
    except ValueError as error:
        raise ValueError(f"must be an address or a network such as 10.0.0.0/8: {error}") from None


def _metadata_value(value: object) -> str:
    if not isinstance(value, str) or len(value) > 512:
        raise ValueError("must be a text of at most 512 characters")
    return value


def is_redis(url: str) -> bool:
    """Whether replicas can count limits there."""
    return re.fullmatch(_REDIS, url) is not None


def _store_url(value: object) -> SecretStr:
    """The address may hold a password."""
    text = value if isinstance(value, str) else ""
    if not re.fullmatch(_STORE, text):
        raise ValueError(
            "must be none:, memory:, sqlite:///path, or the address of a server, such as redis://host:6379/0 or "
            "postgresql://host/database"
        )
    try:
        usable = urlsplit(text).port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("has a port that is no number; in a password, write / as %2F, # as %23, ? as %3F and @ as %40")
    return SecretStr(text)


def _proxy_url(value: object) -> SecretStr:
    """The address may hold a user and a password, percent-encoded."""
    parts = urlsplit(value) if isinstance(value, str) else urlsplit("")
    try:
        usable = parts.scheme == "http" and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("must be the address of an HTTP proxy, such as http://user:password@proxy.example:3128")
    return SecretStr(str(value))


def _admin_token(value: object) -> SecretStr:
    secret = parse_secret(value)
    if len(secret.get_secret_value()) < _SHORTEST_TOKEN:
        raise ValueError(f"must be at least {_SHORTEST_TOKEN} characters, as `openssl rand -hex 32` prints")
    return secret


def _pepper(value: object) -> SecretBytes:
    text = value if isinstance(value, str) else ""
    if len(text) < _SHORTEST_TOKEN:
        raise ValueError(f"must be at least {_SHORTEST_TOKEN} characters, as `openssl rand -hex 32` prints")
    return SecretBytes(text.encode())


@dataclass(frozen=True, slots=True)
class NotNull:
    """Absent means one thing and an empty list another, so what is neither must be written out."""

    message: str = "is empty: [] allows nothing; leave the key out to allow everything"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        either = handler(schema)["anyOf"]
        return next(branch for branch in either if branch != {"type": "null"})

    def _check(self, value: object) -> object:
        if value is None:
            raise ValueError(self.message)
        return value


@dataclass(frozen=True, slots=True)
class OrName:
    """A section that may be written as the one word which matters most, that of `key`. `listed`: it is a list of such
    sections or words, and one alone needs no list."""

    key: str
    listed: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._written_out, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        written = handler(schema)
        if self.listed:
            written = {**written, "items": {"anyOf": [_SOME_TEXT, written["items"]]}}
        return {"anyOf": [_SOME_TEXT, written]}

    def _written_out(self, value: object) -> object:
        if not self.listed:
            return self._section(value)
        return [self._section(each) for each in value] if isinstance(value, list) else [self._section(value)]

    def _section(self, value: object) -> object:
        return {self.key: value} if isinstance(value, str) else value


class _OrOff:
    """A section that may be written as `off`."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._written_out, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"const": "off"}, handler(schema)]}

    @staticmethod
    def _written_out(value: object) -> object:
        return {"off": True} if value == "off" else value


class _OrDefault:
    """An empty section (`timeouts:` and nothing below) is the same as none."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "null"}]}

    def _check(self, value: object) -> object:
        if value is None:
            raise PydanticUseDefault
        return value


def _written(pattern: str, **more: object) -> WithJsonSchema:
    """The form of a text, for editors."""
    return WithJsonSchema({"type": "string", "pattern": f"^(?:{pattern})$", **more})


_DURATION = r"0|(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+"
_SOME_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_LONG_TEXT: dict[str, Any] = {"type": "string", "minLength": _SHORTEST_TOKEN}
_RULES = {"type": "array", "items": {"enum": [str(rule) for rule in Rule]}}
_LOSS = {
    "anyOf": [
        {"enum": list(LOSS_MODES)},
        _RULES,
        {
            "type": "object",
            "properties": {"mode": {"enum": list(LOSS_MODES)}, "refuse": _RULES, "ignore": _RULES},
            "additionalProperties": False,
        },
    ]
}
_DIALECT = {"anyOf": [_SOME_TEXT, {"type": "object", "properties": {"base": _SOME_TEXT}, "required": ["base"]}]}
_WHEN = r"\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:[Zz]|[+-]\d{2}:\d{2}))?"

_Hash = Literal["hmac-sha256", "sha256"]
OrDefault = _OrDefault()
OrOff = _OrOff()
Duration = Annotated[
    float, PlainValidator(parse_duration), WithJsonSchema({"anyOf": [{"const": 0}, _written(_DURATION).json_schema]})
]
PositiveDuration = Annotated[Duration, Field(gt=0)]
Size = Annotated[
    int,
    PlainValidator(parse_size),
    Field(gt=0),
    WithJsonSchema({"type": ["integer", "string"], "minimum": 1, "pattern": r"^\d+\s*(?:[kKMG]?B|[KMG]iB)?$"}),
]
ListenAddress = Annotated[Address, PlainValidator(parse_address), _written(r"(?:[^:\[\]]+|\[[^\[\]]+\]):\d{1,5}")]
Secret = Annotated[SecretStr, PlainValidator(parse_secret), WithJsonSchema(_SOME_TEXT)]
CarrierKey = Annotated[
    SecretBytes, PlainValidator(_carrier_key), _written(r"[0-9A-Fa-f]{64}|[A-Za-z0-9+/_-]{43}=?", writeOnly=True)
]
HeaderName = Annotated[str, PlainValidator(_header_name), _written(_HEADER)]
BaseUrl = Annotated[str, PlainValidator(_base_url), _written(r"https?://[^\s/?#]\S*")]
ProxyUrl = Annotated[SecretStr, PlainValidator(_proxy_url), _written(r"http://[^\s/?#]+/?")]
Glob = Annotated[str, PlainValidator(_glob), _written(r"[\s\S]*\S[\s\S]*")]
Loss = Annotated[LossPolicy, PlainValidator(parse_loss), WithJsonSchema(_LOSS)]
CommitAfter = Annotated[float | Literal["never"], PlainValidator(_commit_after), _written(f"never|{_DURATION}")]
DialectChoice = Annotated[dict[str, Any], BeforeValidator(_dialect), WithJsonSchema(_DIALECT)]
ProfileName = Annotated[str, PlainValidator(_profile_name), WithJsonSchema({"enum": sorted(PROFILE_NAMES)})]
EntryName = Annotated[str, PlainValidator(_entry_name), _written(_NAME)]
TenantName = Annotated[str, PlainValidator(_tenant_name), _written(_TENANT)]
KeyId = Annotated[str, PlainValidator(_key_id), _written(KEY_ID.pattern)]
KeyHash = Annotated[
    tuple[Literal["hmac-sha256", "sha256"], bytes],
    PlainValidator(_key_hash),
    _written(r"(?:hmac-)?sha256:[0-9a-f]{64}"),
]
Moment = Annotated[float, PlainValidator(parse_moment), _written(_WHEN)]
Day = Annotated[str, PlainValidator(_day), _written(r"\d{4}-\d{2}-\d{2}")]
TimeZone = Annotated[str, PlainValidator(_time_zone), WithJsonSchema(_SOME_TEXT)]
Usd = Annotated[
    int,
    PlainValidator(_usd),
    WithJsonSchema({"type": ["number", "string"], "minimum": 0, "maximum": 10**9, "pattern": f"^{_DECIMAL}$"}),
]
IpNetwork = Annotated[Network, PlainValidator(_ip_network), _written(r"[0-9A-Fa-f:.]+(?:/[0-9.]+)?")]
MetadataValue = Annotated[str, PlainValidator(_metadata_value), WithJsonSchema({"type": "string", "maxLength": 512})]
StateUrl = Annotated[SecretStr, PlainValidator(_store_url), _written(_STORE)]
AdminToken = Annotated[SecretStr, PlainValidator(_admin_token), WithJsonSchema(_LONG_TEXT)]
Pepper = Annotated[SecretBytes, PlainValidator(_pepper), WithJsonSchema(_LONG_TEXT)]
