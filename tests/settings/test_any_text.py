"""Whatever is written in the file, the answer is settings or mistakes."""

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.settings import Settings, SettingsError
from proxy.settings.document import read_yaml
from proxy.settings.interpolation import interpolate
from proxy.settings.loading import finish
from proxy.settings.schema import ModelEntry, Section, SettingsFile, TimeoutsSection, UpstreamEntry
from proxy.settings.tenant_schema import (
    BudgetSection,
    KeyEntry,
    LimitsSection,
    ModelsSection,
    PriceEntry,
    TenantEntry,
    TenantPolicySection,
    UpstreamKeysSection,
)

WORDS = ["a", "*", "chat", "http://a", "http://[", "30s", "[::1]:1", "memory:", "${A}", "${", "off", "vllm", "base", ""]
KEYS = [name for section in (SettingsFile, UpstreamEntry, ModelEntry, TimeoutsSection) for name in section.model_fields]

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(WORDS) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYS), inner))


def of(
    section: type[Section], fields: st.SearchStrategy[object] = values, **better: st.SearchStrategy[object]
) -> st.SearchStrategy[dict[str, object]]:
    """Mappings that have the section's keys, so that the odd values get past the first check."""
    return st.fixed_dictionaries({}, optional={**dict.fromkeys(section.model_fields, fields), **better})


files = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(SettingsFile.model_fields, values),
        "upstreams": st.lists(of(UpstreamEntry)) | values,
        "models": st.lists(of(ModelEntry)) | values,
        "timeouts": of(TimeoutsSection) | values,
    },
)


words = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from([*WORDS, "0", "true", "map", "byok", "[a", "2026-01-01"])
)
flat = words | st.lists(words, max_size=2) | st.dictionaries(st.sampled_from("ab"), words, max_size=2)
policies = {
    "models": of(ModelsSection, flat) | flat,
    "upstream": of(UpstreamKeysSection, flat) | flat,
    "limits": of(LimitsSection, words, budget=of(BudgetSection, words) | flat) | flat,
}
tenants = st.lists(
    of(TenantEntry, flat, keys=st.lists(of(KeyEntry, words) | words, max_size=2) | flat, **policies) | flat
)
with_tenants = st.fixed_dictionaries(
    {
        "upstreams": st.just([{"name": "a", "protocol": "chat", "base_url": "http://a"}]),
        "tenants": tenants | flat,
    },
    optional={
        "tenant_defaults": of(TenantPolicySection, flat, **policies) | flat,
        "prices": st.lists(of(PriceEntry, words) | flat) | flat,
        "models": st.lists(of(ModelEntry, words), max_size=2),
    },
)


def read(text: str) -> Settings | list[str]:
    document = read_yaml("any.yaml", text)
    interpolate(document, {"A": "filled in"})
    try:
        return finish(document, {}, None)
    except SettingsError as error:
        return [str(mistake) for mistake in error.mistakes]


@given(st.text())
def test_any_text(text: str) -> None:
    assert read(text)


@settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no reason to fail
@given(files)
def test_any_values_under_the_right_keys(tree: dict[str, object]) -> None:
    try:
        text = orjson.dumps(tree).decode()
    except TypeError:  # a number or a text that JSON has no way to write
        return
    assert read(text)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(with_tenants)
def test_any_values_of_tenants(tree: dict[str, object]) -> None:
    assert read(orjson.dumps(tree).decode())
