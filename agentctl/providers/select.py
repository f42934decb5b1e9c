"""Which model a run talks to, where and with what key: from --model, --api, --base-url and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from agentctl.core.errors import AuthError, UsageError
from agentctl.core.record import Record
from agentctl.core.text import did_you_mean, nearest
from agentctl.core.types import Api, ModelInfo, Price
from agentctl.providers import catalog
from agentctl.providers.adapter import Endpoint
from agentctl.providers.base_url import is_local, normal_base_url, ollama_base_url
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


def select_model(
    *,
    model: str | None,
    model_origin: str,
    api: str | None = None,
    base_url: str | None = None,
    env: Mapping[str, str],
    max_context: int | None = None,
    takes_any_key: bool = True,
) -> tuple[ModelInfo, Endpoint]:
    """The model of a run and the endpoint that serves it; opens no connection.

    `model` is `vendor/name`, where the name may contain slashes, or `scripted/FILE`. Without it the first vendor in
    the order of presets.py whose key is in `env` is taken with its default model, and `origin` names the variable.
    `base_url` and `api` are the flags; `max_context` (tokens) stands for the model's window. The endpoint of
    `scripted/FILE` has neither URL nor key; the name of its model is the path. `takes_any_key`: the key for any
    vendor counts for a named model.

    Raises UsageError for a model, api or URL that cannot be, AuthError where the key is missing or cannot be a key.
    """
    wanted = _known_api(api)
    vendor, name = _split(model) if model else ("", "")
    if vendor == SCRIPTED:
        return _scripted(name, model_origin, max_context)
    chosen = _named(vendor, name, model_origin, env, takes_any_key=takes_any_key) if vendor else _detected(env)
    preset, spoken = chosen.preset, wanted or chosen.preset.api
    url = _base_url(preset, spoken, base_url, env)
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
    return info, Endpoint(vendor=preset.vendor, api=spoken, base_url=url, key=chosen.key, profile=profile)


def select_fallback(
    model: str,
    *,
    first: ModelInfo,
    api: str | None,
    base_url: str | None,
    env: Mapping[str, str],
    max_context: int | None = None,
) -> tuple[ModelInfo, Endpoint]:
    """A model that the run goes on with when the `first` one is unavailable.

    `api`, `base_url` and the key for any vendor were given for the first model, so they count for a fallback of the
    same vendor alone: no key goes to another service than the one it is for. Raises as select_model, naming the model.
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
        )
    except (UsageError, AuthError) as error:
        raise type(error)(f"--fallback {model}: {error.message}", hint=error.hint) from None
    return (info if info.window else info.replace(window=max_context)), endpoint


# --- the model ------------------------------------------------------------------------------------------------------


def _named(vendor: str, name: str, origin: str, env: Mapping[str, str], *, takes_any_key: bool) -> _Choice:
    preset = PRESETS[vendor]
    key = _key(preset, (*((ANY_VENDOR_KEY,) if takes_any_key else ()), *preset.key_variables), env)
    return _Choice(preset=preset, name=name, origin=origin, key=key)


def _detected(env: Mapping[str, str]) -> _Choice:
    hosted = [preset for preset in PRESETS.values() if not preset.is_keyless]
    for preset in hosted:
        for variable in preset.key_variables:
            if env.get(variable, "").strip():
                key = _key(preset, (variable,), env)
                return _Choice(preset=preset, name=preset.model, origin=f"environment: {variable}", key=key)
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


def _base_url(preset: Preset, api: Api, base_url: str | None, env: Mapping[str, str]) -> str:
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


def _profile(preset: Preset, api: Api, *, tries_others: bool) -> Profile:
    """The vendor's own habits on its own wire format, and the common ones where another format was asked for."""
    is_messages = api == "anthropic-messages"
    if is_messages == (preset.api == "anthropic-messages"):
        profile = PROFILES[preset.profile]
    else:
        profile = PROFILES["anthropic" if is_messages else "compatible"]
    return profile if tries_others else profile.replace(endpoint_fallback=())


# --- the key --------------------------------------------------------------------------------------------------------


def _key(preset: Preset, variables: tuple[str, ...], env: Mapping[str, str]) -> str | None:
    for variable in variables:
        key = env.get(variable, "").strip()
        if key:
            return _legal_key(variable, key)
    if preset.is_keyless:
        return None
    empty = [variable for variable in variables if variable in env]
    raise AuthError(
        f"No key for {preset.vendor}; looked for {', '.join(variables)}."
        + (f" Set but empty: {', '.join(empty)}." if empty else ""),
        hint=f"Set {preset.key_variables[0]} in the environment of the run; no flag takes a key.",
    )


def _legal_key(variable: str, key: str) -> str:
    """A key goes into a header as it is; what cannot stand there is refused, and never shown."""
    bad = next((char for char in key if not "!" <= char <= "~"), None)
    if bad is None:
        return key
    kind = "a space or a control character" if ord(bad) <= 0x20 or ord(bad) == 0x7F else "a character outside ASCII"
    raise AuthError(f"The key in {variable} contains {kind}.", hint="Set it again, without quotes or line breaks.")
