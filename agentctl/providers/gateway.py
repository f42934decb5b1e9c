"""What options and the environment say about the way to a service: headers, authentication, API version, organization.

All of it is for the model that was named with it. It never comes from a project's config file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from agentctl.core.errors import UsageError
from agentctl.core.record import Record
from agentctl.providers.presets import Preset

ORGANIZATION = "openai-organization"
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""In the value of a header: what stands for a value of the environment."""
_MADE_BY_US = frozenset(
    {"connection", "content-encoding", "content-length", "content-type", "host", "transfer-encoding"}
)


class Gateway(Record):
    """As given; None and empty leave the vendor's own."""

    headers: tuple[str, ...] = ()
    """Each `Name: value`, where ${VARIABLE} stands for a value of the environment."""
    auth: str | None = None
    """bearer, x-api-key, api-key or none."""
    api_version: str | None = None
    organization: str | None = None


def gateway_headers(gateway: Gateway, preset: Preset, env: Mapping[str, str]) -> dict[str, str]:
    """The headers of the vendor's own variables, then those of options; names in lower case.

    Raises UsageError for one that is none; its message never shows a value.
    """
    found = {header: env[name].strip() for name, header in preset.header_variables.items() if env.get(name, "").strip()}
    variable = preset.headers_variable
    if variable:
        found.update(_parsed(env.get(variable, "").splitlines(), variable, {}))
    if gateway.organization:
        found[ORGANIZATION] = gateway.organization
    found.update(_parsed(gateway.headers, "--header", env))
    return found


def _parsed(lines: Iterable[str], source: str, env: Mapping[str, str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        name = name.strip()
        if not colon or not _NAME.fullmatch(name):
            raise UsageError(
                f"{source}: {name if colon else 'a line without a colon'!r} is no name of a header.",
                hint="Write each header as 'Name: value'.",
            )
        if name.lower() in _MADE_BY_US:
            raise UsageError(f"{source}: {name!r} is set by agentctl itself.", hint="Leave this header out.")
        headers[name.lower()] = _expanded(value.strip(), name, env) if source == "--header" else value.strip()
    return headers


def _expanded(value: str, name: str, env: Mapping[str, str]) -> str:
    missing = next((variable for variable in VARIABLE.findall(value) if not env.get(variable)), None)
    if missing is not None:
        raise UsageError(
            f"--header {name}: the variable {missing!r} is not set.",
            hint=f"Set {missing} in the environment of the run, or leave the header out.",
        )
    return VARIABLE.sub(lambda found: env[found[1]], value)
