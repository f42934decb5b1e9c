"""The clouds that serve models under their own identities and addresses, and their official clients, as data.

A client is given what the environment says and does the rest: it signs, fetches and renews tokens, makes the vendor's
address and body of a plain request, and unpacks the vendor's stream. Azure is also asked directly: there a key or a
token in a header is the whole identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from agentctl.core.errors import AuthError, ProviderError, Unavailable, UsageError
from agentctl.core.record import Record
from agentctl.core.text import one_line
from agentctl.core.types import Api


class Place(Record):
    """Something that a cloud's address is made of."""

    name: str
    variables: tuple[str, ...]
    """Looked at in this order."""
    what: str
    """For messages: what is missing, with its article."""


class Cloud(Record):
    name: str
    client: str
    """Class of the official client."""
    extra: str
    """The extra of agentctl that brings the client and `modules`."""
    modules: tuple[str, ...]
    """What the client imports when it is used."""
    arguments: Mapping[str, str]
    """Of the client: argument and the name of a place."""
    key_arguments: Mapping[str, str] = MappingProxyType({})
    """Of the client: the argument that takes the key, by Profile.auth."""
    places: tuple[Place, ...] = ()
    special_hosts: Mapping[str, str] = MappingProxyType({})
    """Base URLs of regions that do not follow the preset's pattern."""
    paths: Mapping[Api, str] = MappingProxyType({})
    """Where a direct request goes, below the base URL; empty where only the client can make one."""
    failures: tuple[str, ...] = ()
    """Exceptions by which the client's libraries say that there is no usable identity, as module:class."""
    unpacks: str = ""
    """Content type that the client's decoder turns into server-sent events."""
    hint: str = ""
    """What gives an identity."""

    @property
    def is_direct(self) -> bool:
        return bool(self.paths)


_GOOGLE = "https://aiplatform{}googleapis.com/v1"

CLOUDS: Mapping[str, Cloud] = MappingProxyType(
    {
        cloud.name: cloud
        for cloud in (
            Cloud(
                name="azure",
                client="AsyncAzureOpenAI",
                extra="sdk",
                modules=("openai",),
                arguments=MappingProxyType({"api_version": "api_version"}),
                key_arguments=MappingProxyType({"api-key": "api_key", "bearer": "azure_ad_token"}),
                places=(Place(name="api_version", variables=("OPENAI_API_VERSION",), what="an API version"),),
                paths=MappingProxyType(
                    {
                        "openai-chat": "/deployments/{model}/chat/completions",
                        "openai-responses": "/responses",
                    }
                ),
                hint="Set AZURE_OPENAI_API_KEY or AZURE_OPENAI_AD_TOKEN in the environment of the run.",
            ),
            Cloud(
                name="bedrock",
                client="AsyncAnthropicBedrock",
                extra="bedrock",
                modules=("anthropic", "boto3", "botocore"),
                arguments=MappingProxyType({"aws_region": "region"}),
                key_arguments=MappingProxyType({"bearer": "api_key"}),
                places=(Place(name="region", variables=("AWS_REGION", "AWS_DEFAULT_REGION"), what="a region"),),
                failures=("builtins:RuntimeError", "botocore.exceptions:BotoCoreError"),
                unpacks="application/vnd.amazon.eventstream",
                hint="Set AWS_BEARER_TOKEN_BEDROCK, or what the AWS tools take: AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a role of the machine.",
            ),
            Cloud(
                name="vertex",
                client="AsyncAnthropicVertex",
                extra="vertex",
                modules=("anthropic", "google.auth", "requests"),
                arguments=MappingProxyType({"region": "region", "project_id": "project"}),
                places=(
                    Place(name="region", variables=("CLOUD_ML_REGION",), what="a region"),
                    Place(
                        name="project",
                        variables=("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT"),
                        what="a project",
                    ),
                ),
                special_hosts=MappingProxyType(
                    {"global": _GOOGLE.format("."), "us": _GOOGLE.format(".us.rep."), "eu": _GOOGLE.format(".eu.rep.")}
                ),
                failures=("google.auth.exceptions:GoogleAuthError",),
                hint="Set GOOGLE_APPLICATION_CREDENTIALS to a credentials file, or run where Google's tools find a "
                "service account.",
            ),
        )
    }
)
"""By name. Each is run through its client against a local server in tests/contract/test_clouds.py."""


_MAY_PASS = frozenset({"TransportError", "HTTPClientError", "ConnectionError"})
"""Exceptions of the identity libraries by which a network fails, and not an identity."""


def identity_failures(cloud: Cloud | None) -> tuple[type[Exception], ...]:
    """The exceptions by which the client says that nobody knows who asks; to be asked for when one is raised."""
    if cloud is None:
        return ()
    names = (name.partition(":") for name in cloud.failures)
    return tuple(getattr(import_module(module), kind) for module, _, kind in names)


def no_identity(cloud: Cloud | None, error: Exception) -> ProviderError:
    """What such an exception means for a run."""
    assert cloud is not None
    words = one_line(str(error.args[0] if error.args else error), 300).rstrip(".") or type(error).__name__
    if getattr(error, "retryable", False) or _MAY_PASS & {kind.__name__ for kind in type(error).__mro__}:
        what = f"The identity for {cloud.name} could not be fetched: {words}."
        return Unavailable(what, hint="Check the network, then try again.", kind="network")
    return AuthError(f"There is no identity for {cloud.name}: {words}.", hint=cloud.hint, kind="no_key")


def for_nobody(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a run that asks nobody, such as a replay: no place is missing in it."""
    made = {
        place.variables[0]: "nowhere"
        for cloud in CLOUDS.values()
        for place in cloud.places
        if not any(env.get(variable) for variable in place.variables)
    }
    return {"AZURE_OPENAI_ENDPOINT": "https://nowhere.invalid", **made, **env}


def places_of(cloud: Cloud, given: Mapping[str, str | None], env: Mapping[str, str]) -> dict[str, str]:
    """Region, project and the like: what an option gave, else the environment. Raises UsageError for one without."""
    found: dict[str, str] = {}
    for place in cloud.places:
        said = (given.get(place.name), *(env.get(variable) for variable in place.variables))
        value = next((text.strip() for text in said if text and text.strip()), "")
        if not value:
            raise UsageError(
                f"{cloud.name} needs {place.what}; looked for {', '.join(place.variables)}.",
                hint=f"Set {place.variables[0]} in the environment of the run.",
            )
        found[place.name] = value
    return found
