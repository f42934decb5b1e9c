"""Immutable records without the start-up price of generated code.

`@dataclass(frozen=True)` compiles an `__init__`, `__eq__` and `__repr__` for every class with `exec`: about 1 ms
a class, 60 ms for the classes that one turn needs (docs/decisions/0005-records.md). A `Record` shares one of each.
Type checkers treat subclasses as keyword-only frozen dataclasses (PEP 681).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Record:
    """A frozen, keyword-only value. Fields are the annotations of the class; defaults must be immutable."""

    fields: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, object]] = {}
    _names: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        own = [name for name, kind in cls.__annotations__.items() if not str(kind).startswith("ClassVar")]
        cls.fields = (*cls.fields, *(name for name in own if name not in cls.fields))
        cls._defaults = {**cls._defaults, **{name: cls.__dict__[name] for name in own if name in cls.__dict__}}
        cls._names = frozenset(cls.fields)

    def __init__(self, **values: object) -> None:
        state = self.__dict__
        state.update(self._defaults)
        state.update(values)
        if state.keys() != self._names:
            missing = [name for name in self.fields if name not in state]
            unknown = [name for name in values if name not in self.fields]
            raise TypeError(f"{type(self).__name__}: missing {missing}, unknown {unknown}")

    @classmethod
    def from_fields(cls, values: dict[str, Any]) -> Self:
        """As the constructor, for a dict that nobody else keeps; the quick way where thousands are made.

        Raises TypeError when it does not hold exactly the fields, apart from defaults.
        """
        if values.keys() != cls._names:
            return cls(**values)
        made = object.__new__(cls)
        object.__setattr__(made, "__dict__", values)
        return made

    def replace(self, **changes: object) -> Self:
        """A copy with some fields changed."""
        return type(self)(**{**self.__dict__, **changes})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} is frozen; use replace()")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *(self.__dict__[name] for name in self.fields)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={self.__dict__[name]!r}' for name in self.fields)})"


def as_dict(value: object) -> Any:
    """Records, tuples and mappings as plain dicts and lists, ready for JSON. Everything else as it is."""
    if isinstance(value, Record):
        return {name: as_dict(value.__dict__[name]) for name in value.fields}
    if isinstance(value, (tuple, list)):
        return [as_dict(item) for item in value]
    if isinstance(value, Mapping):
        return {key: as_dict(item) for key, item in value.items()}
    return value


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """The same value with `change` applied to every string in it, keys too; the same object when nothing changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Record):
        changed = {name: new for name, old in value.__dict__.items() if (new := map_strings(old, change)) is not old}
        return value.replace(**changed) if changed else value
    if isinstance(value, Mapping):
        rows = {map_strings(key, change): map_strings(item, change) for key, item in value.items()}
        same = len(rows) == len(value) and all(rows.get(key, rows) is item for key, item in value.items())
        return value if same else rows
    if isinstance(value, (list, tuple)):
        items = [map_strings(item, change) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else type(value)(items)
    return value
