"""What the environment and the two config files say, each as a layer of checked values with their origin."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentctl.config.options import read_value
from agentctl.config.paths import CONFIG_FILE, PROJECT_FOLDER, project_file
from agentctl.config.table import BY_KEY, BY_VARIABLE, VARIABLE_PREFIX, Option
from agentctl.config.trust import WorkspaceReader
from agentctl.core.errors import ConfigError
from agentctl.core.files import read_limited
from agentctl.core.record import Record
from agentctl.core.text import did_you_mean
from agentctl.core.types import JsonObject, Problem


class Given(Record):
    """A value and where it was written: a flag, a variable or the path of a file."""

    value: Any
    origin: str


Layer = dict[str, Given]
"""By the name of the option."""

OTHER_VARIABLES = ("AGENTCTL_HOME", "AGENTCTL_API_KEY", "AGENTCTL_APPROVAL_KEY")
"""Variables that are not options: where everything lies, the key for any vendor, and the one that signs approvals."""

REFUSALS = ("deny",)
"""Keys of a project file that count even when it is not trusted: they only take away."""

_NEVER_PROJECT_WORDS = ("api_key",)
"""Left out of a project file by name, besides the options that say so; so is every other key variable."""

_MAX_BYTES = 1_000_000
_PROJECT_PATH = f"{PROJECT_FOLDER}/{CONFIG_FILE}"


def environment_layer(env: Mapping[str, str]) -> tuple[Layer, tuple[Problem, ...]]:
    """AGENTCTL_* variables. An empty one counts as unset, since workflow files pass empty inputs on that way.

    A name that is nearly a valid one raises ConfigError; any other unknown name is a problem: it may belong to a
    wrapper script.
    """
    layer: Layer = {}
    problems = []
    for variable, text in env.items():
        if not variable.startswith(VARIABLE_PREFIX) or not text:
            continue
        option = BY_VARIABLE.get(variable)
        if option:
            layer[option.name] = Given(value=read_value(option, text, variable, ConfigError), origin=variable)
        elif variable not in OTHER_VARIABLES:
            problems.append(_unknown_variable(variable))
    return layer, tuple(problems)


def _unknown_variable(variable: str) -> Problem:
    from difflib import get_close_matches  # only on the way to a complaint

    word = variable.removeprefix(VARIABLE_PREFIX)
    valid = [name.removeprefix(VARIABLE_PREFIX) for name in (*BY_VARIABLE, *OTHER_VARIABLES)]
    near = get_close_matches(word.upper(), valid, n=1, cutoff=0.75)
    if near:
        raise ConfigError(
            f"{variable}: there is no such variable.", hint=f"Did you mean {VARIABLE_PREFIX + near[0]!r}?"
        )
    return Problem(
        code="unknown-variable", what=variable, why="agentctl has no variable of this name", fix=f"Unset {variable}."
    )


def user_layer(path: Path) -> Layer:
    """The user's config file; empty when there is none. Raises ConfigError that names the file and the key."""
    return _checked(_parse(_file(path), str(path)), str(path))


def user_refusals(path: Path) -> Layer:
    """What an isolated run keeps of a config file: nothing of it is dropped that only takes away."""
    try:
        data = _file(path)
    except ConfigError:
        return {}
    return _refusals(data, str(path))


def _file(path: Path) -> bytes:
    try:
        return read_limited(path, _MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise ConfigError(f"{path}: larger than 1 MB.", hint="A config file holds a few lines.") from None
        raise ConfigError(f"{path}: {error.strerror}.", hint="Make it a readable file or remove it.") from error


def project_layer(reader: WorkspaceReader, root: Path, user_file: Path) -> tuple[Layer, tuple[Problem, ...]]:
    """The project's config file under trust, and what was left out of it.

    Of a file that is not trusted only refusals count, and one that does not parse is left out like the rest.
    """
    origin = str(project_file(root))
    data = reader.read(_PROJECT_PATH)
    if reader.level == "none":
        return project_refusals(reader, root), reader.problems
    if data is None:
        return {}, reader.problems
    table = _parse(data, origin)
    forbidden = [key for key in table if _is_never_project(key)]
    kept = {key: value for key, value in table.items() if key not in forbidden}
    problems = tuple(_forbidden(key, origin, user_file) for key in forbidden)
    return _checked(kept, origin), (*reader.problems, *problems)


def project_refusals(reader: WorkspaceReader, root: Path) -> Layer:
    """What counts of a project's file that is not believed."""
    return _refusals(reader.read_untrusted(_PROJECT_PATH), str(project_file(root)))


def _refusals(data: bytes | None, origin: str) -> Layer:
    try:
        table = _parse(data or b"", origin)
        return _checked({key: value for key, value in table.items() if key in REFUSALS}, origin)
    except ConfigError:
        return {}


def _is_never_project(key: str) -> bool:
    option = BY_KEY.get(key)
    return option.is_never_project if option else key in _NEVER_PROJECT_WORDS or key.endswith("_api_key")


def _forbidden(key: str, origin: str, user_file: Path) -> Problem:
    option = BY_KEY.get(key)
    other = f"{option.flag}, {option.variable} or {user_file}" if option else f"the environment or {user_file}"
    return Problem(
        code="left-out",
        what=f"{key} in {origin}",
        why="a project's file never sets it, trusted or not",
        fix=f"Say it with {other}.",
    )


def _parse(data: bytes, origin: str) -> JsonObject:
    if not data.strip():
        return {}
    import tomllib  # only when there is something to read

    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{origin}: not UTF-8 (byte {error.start}).", hint="Save the file as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin}: not valid TOML: {error}.", hint='Write lines such as: model = "…"') from None
    except RecursionError:
        raise ConfigError(f"{origin}: nested too deeply.", hint="A config file has one level.") from None


def _checked(table: JsonObject, origin: str) -> Layer:
    layer: Layer = {}
    for key, value in table.items():
        option = BY_KEY.get(key) or _unknown_key(key, origin)
        layer[option.name] = Given(value=read_value(option, value, f"{origin}: {key}", ConfigError), origin=origin)
    return layer


def _unknown_key(key: str, origin: str) -> Option:
    """Raises: there is no such key."""
    word = key.replace("-", "_")
    hint = f"Did you mean {word!r}?" if word in BY_KEY else did_you_mean(word, BY_KEY)
    raise ConfigError(f"{origin}: there is no key {key!r}.", hint=hint or "agentctl schema config lists all keys.")
