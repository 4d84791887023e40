"""Single values of the configuration file: what each takes, as types for the models of `schema.py`."""

import importlib.util
import math
import re
import ssl
from base64 import urlsafe_b64decode
from datetime import UTC, date, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Never
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field, PlainValidator, SecretBytes, SecretStr, ValidationInfo
from pydantic_core import PydanticUseDefault

from proxy.canonical.loss import Rule
from proxy.settings.interpolation import read_secret_file
from proxy.settings.losses import LossPolicy
from proxy.settings.snapshot import Address
from proxy.settings.spelling import did_you_mean
from proxy.settings.tenants import Network
from proxy.settings.units import parse_duration, parse_size
from proxy.settings.watching import stamp
from proxy.translation.envelope import KEY_BYTES
from proxy.translation.profiles import NAMES as PROFILE_NAMES

_VERSION = r"v\d\w*|backend-api"
KEY_ID = re.compile(r"[0-9a-hjkmnp-tv-z]{12}")  # Crockford's base32 in lower case: without i, l, o and u
_SHORTEST_TOKEN = 16
NOT_YET = "not supported yet by this version"


def _refuse(_value: object) -> Never:
    raise ValueError(NOT_YET)


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


_LOSS_MODES = ("off", "report", "strict")
_LOSS_KEYS = ("mode", "refuse", "ignore")


def _loss(value: object) -> LossPolicy:
    """A mode, a list of rules to refuse, or a mapping that says both and what not to show."""
    if isinstance(value, str) and value in _LOSS_MODES:
        return _loss_policy(value, [], [])
    if isinstance(value, list):
        return _loss_policy("report", value, [])
    if not isinstance(value, dict):
        raise ValueError("must be off, report, strict, a list of rules to refuse, or {mode, refuse, ignore}")
    for key in value:
        if key not in _LOSS_KEYS:
            raise ValueError(f"{key!r} is not a key here{did_you_mean(key, _LOSS_KEYS)}")
    return _loss_policy(value.get("mode", "report"), value.get("refuse", []), value.get("ignore", []))


def _loss_policy(mode: object, refuse: object, ignore: object) -> LossPolicy:
    if mode not in _LOSS_MODES:
        raise ValueError(f"mode must be off, report or strict{did_you_mean(mode, _LOSS_MODES)}")
    refused, ignored = _loss_rules("refuse", refuse), _loss_rules("ignore", ignore)
    if both := refused & ignored:
        raise ValueError(f"{min(both).value!r} can't be both refused and ignored")
    return LossPolicy(mode != "off", mode == "strict", refused, ignored)


def _loss_rules(key: str, value: object) -> frozenset[Rule]:
    if not isinstance(value, list):
        raise ValueError(f"{key} must be a list of rules")
    return frozenset(map(_loss_rule, value))


def _loss_rule(value: object) -> Rule:
    try:
        return Rule(str(value))
    except ValueError:
        raise ValueError(f"{value!r} is not a rule{did_you_mean(value, Rule)}") from None


def _file(value: object, info: ValidationInfo) -> Path:
    """A file that exists; a relative path starts at the configuration file's folder."""
    if not isinstance(value, str) or not value:
        raise ValueError("must be a path")
    context = info.context or {}
    path = Path(context.get("folder", "."), value)
    context.get("named", {})[path] = stamp(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    return path


def _tokenizer_file(value: object, info: ValidationInfo) -> Path:
    path = _file(value, info)
    if importlib.util.find_spec("tokenizers") is None:
        raise ValueError("needs a library that is not installed: pip install 'dragoman[tokenizers]'")
    from tokenizers import Tokenizer

    try:
        Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 - the library raises no narrower one
        raise ValueError(f"{path} holds no tokenizer: {error}") from None
    return path


def _ca_file(value: object, info: ValidationInfo) -> Path:
    path = _file(value, info)
    try:
        ssl.create_default_context(cafile=path)
    except OSError:
        raise ValueError(f"{path} holds no certificate in PEM form") from None
    return path


def _client_cert(value: object, info: ValidationInfo) -> Path:
    path = _file(value, info)
    try:
        # Without a password given, OpenSSL would ask the terminal for one.
        ssl.create_default_context().load_cert_chain(path, password="")
    except OSError:
        raise ValueError(f"{path} holds no certificate with its unencrypted key in PEM form") from None
    return path


def _secret(value: object) -> SecretStr:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text that is not empty")
    if not value.isascii() or not value.isprintable():
        raise ValueError("holds a character that can't stand in a header")
    return SecretStr(value)


def _secret_file(value: object, info: ValidationInfo) -> SecretStr:
    return _secret(read_secret_file(_file(value, info)))


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
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", value):
        raise ValueError("must be a short name of letters, digits, '.', '_' and '-'")
    return value


def _header_name(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", value):
        raise ValueError("is not a header's name")
    if value.lower() in ("connection", "content-length", "content-type", "host", "transfer-encoding"):
        raise ValueError("can't be set: it belongs to each request")
    return value.lower()


def _single_upstream(value: object) -> object:
    if isinstance(value, list):
        raise ValueError(f"a list of targets is {NOT_YET}: name one upstream")
    return value


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
    if not isinstance(value, str) or not re.fullmatch(r"[a-z0-9-]{1,40}", value):
        raise ValueError("must be 1 to 40 of a-z, 0-9 and '-': it is a label of metrics")
    return value


def _key_id(value: object) -> str:
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
        value = float(value) if re.fullmatch(r"\d{1,12}(\.\d{1,12})?", value) else None
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


def _redis_url(value: object) -> SecretStr | None:
    """None counts in this process. The address may hold a password."""
    if value == "none:":
        return None
    text = value if isinstance(value, str) else ""
    if text.startswith(("memory:", "sqlite:", "postgresql:")):
        raise ValueError(f"{NOT_YET}: only none: and redis: are")
    if not re.fullmatch(r"(?:redis|rediss|unix)://\S+", text):
        raise ValueError("must be none:, or the address of a Redis or Valkey server, such as redis://host:6379/0")
    return SecretStr(text)


def _admin_token(value: object) -> SecretStr:
    secret = _secret(value)
    if len(secret.get_secret_value()) < _SHORTEST_TOKEN:
        raise ValueError(f"must be at least {_SHORTEST_TOKEN} characters, as `openssl rand -hex 32` prints")
    return secret


def _pepper(value: object) -> SecretBytes:
    text = value if isinstance(value, str) else ""
    if len(text) < _SHORTEST_TOKEN:
        raise ValueError(f"must be at least {_SHORTEST_TOKEN} characters, as `openssl rand -hex 32` prints")
    return SecretBytes(text.encode())


def _not_null(value: object) -> object:
    """Absent means everything and an empty list nothing, so what is neither must be written out."""
    if value is None:
        raise ValueError("is empty: [] allows nothing; leave the key out to allow everything")
    return value


def _default_if_null(value: object) -> object:
    """An empty section (`timeouts:` and nothing below) is the same as none."""
    if value is None:
        raise PydanticUseDefault
    return value


NotNull = BeforeValidator(_not_null)
NotYet = Annotated[None, BeforeValidator(_refuse)]
Duration = Annotated[float, PlainValidator(parse_duration)]
PositiveDuration = Annotated[Duration, Field(gt=0)]
Size = Annotated[int, PlainValidator(parse_size), Field(gt=0)]
ListenAddress = Annotated[Address, PlainValidator(parse_address)]
Secret = Annotated[SecretStr, PlainValidator(_secret)]
CarrierKey = Annotated[SecretBytes, PlainValidator(_carrier_key)]
SecretFile = Annotated[SecretStr, PlainValidator(_secret_file)]
HeaderName = Annotated[str, PlainValidator(_header_name)]
TokenizerFile = Annotated[Path, PlainValidator(_tokenizer_file)]
CaFile = Annotated[Path, PlainValidator(_ca_file)]
ClientCert = Annotated[Path, PlainValidator(_client_cert)]
BaseUrl = Annotated[str, PlainValidator(_base_url)]
Glob = Annotated[str, PlainValidator(_glob)]
Loss = Annotated[LossPolicy, PlainValidator(_loss)]
CommitAfter = Annotated[float | Literal["never"], PlainValidator(_commit_after)]
SingleUpstream = Annotated[str, BeforeValidator(_single_upstream)]
DialectChoice = Annotated[dict[str, Any], BeforeValidator(_dialect)]
OrDefault = BeforeValidator(_default_if_null)
ProfileName = Annotated[str, PlainValidator(_profile_name)]
EntryName = Annotated[str, PlainValidator(_entry_name)]
TenantName = Annotated[str, PlainValidator(_tenant_name)]
KeyId = Annotated[str, PlainValidator(_key_id)]
KeyHash = Annotated[tuple[Literal["hmac-sha256", "sha256"], bytes], PlainValidator(_key_hash)]
Moment = Annotated[float, PlainValidator(parse_moment)]
Day = Annotated[str, PlainValidator(_day)]
TimeZone = Annotated[str, PlainValidator(_time_zone)]
Usd = Annotated[int, PlainValidator(_usd)]
IpNetwork = Annotated[Network, PlainValidator(_ip_network)]
MetadataValue = Annotated[str, PlainValidator(_metadata_value)]
LimitsUrl = Annotated[SecretStr | None, PlainValidator(_redis_url)]
AdminToken = Annotated[SecretStr, PlainValidator(_admin_token)]
Pepper = Annotated[SecretBytes, PlainValidator(_pepper)]
