"""The pydantic base of tool arguments. Imported with the first tool call, never before."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from agentctl.core.errors import InvalidArguments
from agentctl.core.types import JsonObject


class Arguments(BaseModel):
    """Arguments of one tool. Unknown keys are refused; a number given as text is understood."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def parse(cls, args: JsonObject) -> Self:
        """Raises InvalidArguments with one line per fault and the fields that exist."""
        try:
            return cls.model_validate(args)
        except ValidationError as error:
            faults = "; ".join(_fault(fault) for fault in error.errors(include_url=False)[:5])
            fields = ", ".join(_field(name, info) for name, info in cls.model_fields.items())
            raise InvalidArguments(f"The arguments do not fit: {faults}. Fields: {fields or 'none'}.") from None

    def as_args(self) -> JsonObject:
        """Back to JSON values; keys that were not given are left out."""
        return self.model_dump(mode="json", exclude_unset=True, by_alias=True)

    @classmethod
    def wire_schema(cls) -> JsonObject:
        """The JSON Schema as it goes on the wire: inlined, without titles and pydantic's own words."""
        schema = cls.model_json_schema()
        return _object(_strip(schema, schema.pop("$defs", {})))


def _fault(fault: Any) -> str:
    where = ".".join(str(part) for part in fault["loc"]) or "arguments"
    return f"{where}: {fault['msg']} (got {str(fault.get('input'))[:80]!r})"


def _field(name: str, info: Any) -> str:
    shown = info.alias or name
    return shown if info.is_required() else f"{shown}?"


def _strip(node: Any, defs: JsonObject) -> Any:
    if isinstance(node, list):
        return [_strip(item, defs) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _strip(defs[node["$ref"].rsplit("/", 1)[-1]], defs)
    if "anyOf" in node:  # Optional[X]: a missing key says the same as null
        kinds = [item for item in node["anyOf"] if item.get("type") != "null"]
        if len(kinds) == 1:
            node = {**{key: value for key, value in node.items() if key != "anyOf"}, **kinds[0]}
    kept = {}
    for key, value in node.items():
        if (
            key in ("title", "$defs")
            and isinstance(value, (str, dict))
            and not (key == "title" and isinstance(value, dict))
        ):
            continue
        if key == "default" and value is None:
            continue
        kept[key] = (
            {name: _strip(item, defs) for name, item in value.items()} if key == "properties" else _strip(value, defs)
        )
    return kept


def _object(schema: JsonObject) -> JsonObject:
    """Strict servers want properties, required and additionalProperties on the root, also when empty."""
    return {
        "type": "object",
        "properties": schema.get("properties", {}),
        "required": schema.get("required", []),
        "additionalProperties": False,
    }
