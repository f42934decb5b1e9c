"""Which model a run talks to, where and with what key: from --model, --api, --base-url and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import get_args

from agentctl.core.errors import AuthError, UsageError
from agentctl.core.record import Record
from agentctl.core.text import did_you_mean, nearest
from agentctl.core.types import Api, ModelInfo, Price
from agentctl.providers import catalog
from agentctl.providers.adapter import Endpoint
from agentctl.providers.base_url import azure_base_url, is_local, normal_base_url, ollama_base_url, plain_base_url
from agentctl.providers.gateway import Gateway, gateway_headers
from agentctl.providers.presets import ANY_VENDOR_KEY, PRESETS, SCRIPTED, VENDORS, Preset
from agentctl.providers.profiles import PROFILES, Profile

_FREE = Price(input=0, output=0)
_HOME_OF_OPENAI = PRESETS["openai"].base_url
_SCRIPTED_PROFILE = Profile(name=SCRIPTED, auth="none")
_APIS: tuple[Api, ...] = get_args(Api)


class _Choice(Record):
    """What the model reference or the environment decided."""

    preset: Preset
    name: str
    origin: str
    key: str | None
    auth: str = ""
    """How the key is sent, where its variable says so."""


_PLAIN = Gateway()


def select_model(
    *,
    model: str | None,
    model_origin: str,
    api: str | None = None,
    base_url: str | None = None,
    env: Mapping[str, str],
    max_context: int | None = None,
    takes_any_key: bool = True,
    gateway: Gateway = _PLAIN,
) -> tuple[ModelInfo, Endpoint]:
    """The model of a run and the endpoint that serves it; opens no connection.

    `model` is `vendor/name`, where the name may contain slashes, or `scripted/FILE`. Without it the first vendor in
    the order of presets.py whose key is in `env` is taken with its default model, and `origin` names the variable.
    `base_url` and `api` are the flags; `max_context` (tokens) stands for the model's window. The endpoint of
    `scripted/FILE` has neither URL nor key; the name of its model is the path. `takes_any_key`: the key for any
    vendor counts for a named model. `gateway` holds the options about the way to the service.

    Raises UsageError for a model, api, URL or header that cannot be, AuthError where the key is missing or cannot be
    a key.
    """
    wanted = _known_api(api)
    vendor, name = _split(model) if model else ("", "")
    if vendor == SCRIPTED:
        return _scripted(name, model_origin, max_context)
    chosen = _named(vendor, name, model_origin, env, takes_any_key=takes_any_key) if vendor else _detected(env)
    preset, spoken = chosen.preset, wanted or chosen.preset.api
    place, query, extra = _where(preset, spoken, gateway, base_url, env)
    url = _base_url(preset, spoken, base_url, env, place)
    cloud = preset.cloud if place else ""
    entry = catalog.look_up(preset.vendor, chosen.name)
    profile = _profile(preset, spoken, tries_others=wanted is None and url == _HOME_OF_OPENAI)
    is_free = preset.is_keyless and (chosen.key is None or is_local(url))
    info = ModelInfo(
        vendor=preset.vendor,
        name=chosen.name,
        api=spoken,
        base_url=url,
        origin=chosen.origin,
        profile=profile.name,
        window=max_context or entry.window,
        max_output=entry.max_output,
        price=_FREE if is_free else entry.price,
        images=entry.images,
        reasoning=entry.reasoning,
    )
    auth = gateway.auth or chosen.auth
    headers = gateway_headers(gateway, preset, env)
    if spoken == "anthropic-messages" and gateway.api_version and not cloud:
        headers = {"anthropic-version": gateway.api_version, **headers}
    return info, Endpoint(
        vendor=preset.vendor,
        api=spoken,
        base_url=url,
        key=chosen.key,
        profile=profile.replace(auth=auth) if auth else profile,
        headers=MappingProxyType(headers),
        query=MappingProxyType(query),
        body=MappingProxyType(extra),
        cloud=cloud,
        place=MappingProxyType(place),
    )


def select_fallback(
    model: str,
    *,
    first: ModelInfo,
    api: str | None,
    base_url: str | None,
    env: Mapping[str, str],
    max_context: int | None = None,
    gateway: Gateway = _PLAIN,
) -> tuple[ModelInfo, Endpoint]:
    """A model that the run goes on with when the `first` one is unavailable.

    `api`, `base_url`, `gateway` and the key for any vendor were given for the first model, so they count for a fallback
    of the same vendor alone: no key goes to another service than the one it is for. Raises as select_model, naming the
    model.
    """
    is_same = model.strip().partition("/")[0] == first.vendor
    try:
        info, endpoint = select_model(
            model=model,
            model_origin="--fallback",
            api=api if is_same else None,
            base_url=base_url if is_same else None,
            env=env,
            takes_any_key=is_same,
            gateway=gateway if is_same else _PLAIN,
        )
    except (UsageError, AuthError) as error:
        raise type(error)(f"--fallback {model}: {error.message}", hint=error.hint) from None
    return (info if info.window else info.replace(window=max_context)), endpoint


# --- the model ------------------------------------------------------------------------------------------------------


def _named(vendor: str, name: str, origin: str, env: Mapping[str, str], *, takes_any_key: bool) -> _Choice:
    preset = PRESETS[vendor]
    variables = (*((ANY_VENDOR_KEY,) if takes_any_key else ()), *preset.key_variables)
    variable, key = _key(preset, variables, env)
    return _Choice(preset=preset, name=name, origin=origin, key=key, auth=preset.key_auth.get(variable, ""))


def _detected(env: Mapping[str, str]) -> _Choice:
    hosted = [preset for preset in PRESETS.values() if preset.is_detected]
    for preset in hosted:
        for variable in preset.key_variables:
            if env.get(variable, "").strip():
                _, key = _key(preset, (variable,), env)
                auth, origin = preset.key_auth.get(variable, ""), f"environment: {variable}"
                return _Choice(preset=preset, name=preset.model, origin=origin, key=key, auth=auth)
    if env.get(ANY_VENDOR_KEY, "").strip():
        raise UsageError(
            f"{ANY_VENDOR_KEY} is set, but no model says which vendor it is for.",
            hint="Name one with --model vendor/model or AGENTCTL_MODEL.",
        )
    variables = ", ".join(variable for preset in hosted for variable in preset.key_variables)
    raise AuthError(
        f"No model is named and no key is in the environment; looked for {variables}.",
        hint="Set one of them, or name a model that needs no key: --model ollama/NAME. `agentctl demo` needs neither.",
    )


def _split(model: str) -> tuple[str, str]:
    vendor, slash, name = model.strip().partition("/")
    if not slash:
        raise UsageError(f"The model {model!r} names no vendor.", hint=_vendor_hint(vendor))
    if vendor not in VENDORS:
        raise UsageError(f"Unknown vendor {vendor!r} in the model {model!r}.", hint=_vendor_hint(model.strip()))
    if not name.strip():
        raise UsageError(f"The model {model!r} has no name after the slash.", hint=f"For example {_example(vendor)!r}.")
    return vendor, name.strip()


def _vendor_hint(word: str) -> str:
    """What was probably meant by a model without a known vendor."""
    if word in VENDORS:
        return f"Write vendor/model, for example {_example(word)!r}."
    vendor, slash, _ = word.partition("/")
    known = [] if vendor.lower() in VENDORS else catalog.vendors_with(word)
    if known:
        return f"Write {' or '.join(repr(f'{vendor}/{word}') for vendor in known)}."
    near = nearest(vendor, VENDORS) if slash else None
    return f"Did you mean {near!r}?" if near else f"Write vendor/model; vendors: {', '.join(VENDORS)}."


def _example(vendor: str) -> str:
    return f"{SCRIPTED}/FILE" if vendor == SCRIPTED else f"{vendor}/{PRESETS[vendor].model or 'NAME'}"


def _known_api(api: str | None) -> Api | None:
    for known in _APIS:
        if api == known:
            return known
    if api:
        raise UsageError(f"Unknown api {api!r}.", hint=did_you_mean(api, _APIS))
    return None


def _scripted(path: str, origin: str, max_context: int | None) -> tuple[ModelInfo, Endpoint]:
    """Takes the wire format's place in a run: nothing is sent, nothing costs."""
    info = ModelInfo(
        vendor=SCRIPTED,
        name=path,
        api="openai-chat",
        base_url="",
        origin=origin,
        profile=SCRIPTED,
        window=max_context,
        price=_FREE,
        images=True,
        reasoning=True,
    )
    return info, Endpoint(vendor=SCRIPTED, api="openai-chat", base_url="", key=None, profile=_SCRIPTED_PROFILE)


# --- where ----------------------------------------------------------------------------------------------------------


def _where(
    preset: Preset, api: Api, gateway: Gateway, base_url: str | None, env: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """The places of a cloud's address (none: the service is asked plainly), the query of every request, and the fields
    that every body carries."""
    version = gateway.api_version
    plain_query = {"api-version": version} if version and api != "anthropic-messages" else {}
    if not preset.cloud:
        return {}, plain_query, {}
    from agentctl.providers.clouds import CLOUDS, places_of  # few runs ask a cloud

    if (api == "anthropic-messages") != (preset.api == "anthropic-messages"):
        raise UsageError(f"{preset.vendor} speaks {preset.api}, not {api}.", hint="Leave --api out.")
    if _cloud_url(preset, base_url, env, {}).endswith("/openai/v1"):
        return {}, plain_query, {}  # Azure's newer address is a plain one
    place = places_of(CLOUDS[preset.cloud], {"api_version": version}, env)
    if "api_version" in place:
        return place, {"api-version": place["api_version"]}, {}
    return place, {}, {"anthropic_version": version} if version else {}


def _base_url(preset: Preset, api: Api, base_url: str | None, env: Mapping[str, str], place: Mapping[str, str]) -> str:
    if preset.cloud:
        return _cloud_url(preset, base_url, env, place)
    if base_url:
        return normal_base_url(base_url, api, "The base URL")
    variable = preset.base_url_variable
    value = env.get(variable, "").strip() if variable else ""
    if value and variable == "OLLAMA_HOST":
        return normal_base_url(ollama_base_url(value), api, variable)
    if value:
        return normal_base_url(value, api, variable)
    if api != "anthropic-messages" and preset.api == "anthropic-messages":
        return f"{preset.base_url}/v1"
    return normal_base_url(preset.base_url, api, preset.vendor)


def _cloud_url(preset: Preset, base_url: str | None, env: Mapping[str, str], place: Mapping[str, str]) -> str:
    """The address as the cloud's client takes it: with the path that it does not add itself."""
    from agentctl.providers.clouds import CLOUDS

    variable = preset.base_url_variable
    given, source = (base_url, "The base URL") if base_url else (env.get(variable, "").strip(), variable)
    if given:
        plain = plain_base_url(given, source)
        return azure_base_url(plain) if preset.cloud == "azure" else plain
    if not place:
        return ""
    if not preset.base_url:
        raise UsageError(
            f"{preset.vendor} has no address of its own; looked for {variable}.",
            hint=f"Set {variable} in the environment of the run, or name the address with --base-url.",
        )
    special = CLOUDS[preset.cloud].special_hosts.get(place["region"])
    return special or plain_base_url(preset.base_url.format(**place), f"The region {place['region']!r}:")


def _profile(preset: Preset, api: Api, *, tries_others: bool) -> Profile:
    """The vendor's own habits on its own wire format, and the common ones where another format was asked for."""
    is_messages = api == "anthropic-messages"
    if is_messages == (preset.api == "anthropic-messages"):
        profile = PROFILES[preset.profile]
    else:
        profile = PROFILES["anthropic" if is_messages else "compatible"]
    return profile if tries_others else profile.replace(endpoint_fallback=())


# --- the key --------------------------------------------------------------------------------------------------------


def _key(preset: Preset, variables: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, str | None]:
    """The variable that holds the key, and the key; None where the vendor is asked without one."""
    for variable in variables:
        key = env.get(variable, "").strip()
        if key:
            return variable, _legal_key(variable, key)
    if preset.is_keyless or _has_own_identity(preset):
        return "", None
    empty = [variable for variable in variables if variable in env]
    raise AuthError(
        f"No key for {preset.vendor}; looked for {', '.join(variables)}."
        + (f" Set but empty: {', '.join(empty)}." if empty else ""),
        hint=f"Set {preset.key_variables[0]} in the environment of the run; no flag takes a key.",
    )


def _has_own_identity(preset: Preset) -> bool:
    """Whether the cloud's client finds an identity by itself: in files, of the machine, from a token service."""
    if not preset.cloud:
        return False
    from agentctl.providers.clouds import CLOUDS

    return not CLOUDS[preset.cloud].is_direct


def _legal_key(variable: str, key: str) -> str:
    """A key goes into a header as it is; what cannot stand there is refused, and never shown."""
    bad = next((char for char in key if not "!" <= char <= "~"), None)
    if bad is None:
        return key
    kind = "a space or a control character" if ord(bad) <= 0x20 or ord(bad) == 0x7F else "a character outside ASCII"
    raise AuthError(f"The key in {variable} contains {kind}.", hint="Set it again, without quotes or line breaks.")
