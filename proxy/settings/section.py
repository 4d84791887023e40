"""What all mappings of the configuration file have in common."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A mapping of the file: it knows all its keys, and its errors quote no value."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    def __deepcopy__(self, _memo: dict[int, Any] | None = None) -> Self:
        """Itself, since nothing in it changes. Pydantic copies a default for each of ten thousand tenants."""
        return self

    def over(self, defaults: "Section") -> Self:
        """The same, with what it leaves out taken from `defaults`, field by field, also inside its sections."""
        if not defaults.model_fields_set:
            return self
        values: dict[str, object] = {}
        for name in type(self).model_fields:
            value, default = getattr(self, name), getattr(defaults, name, None)
            if isinstance(value, Section) and isinstance(default, Section):
                value = value.over(default)
            elif name not in self.model_fields_set and hasattr(defaults, name):
                value = default
            values[name] = value
        return self.model_copy(update=values)
