"""The secrets of a run: values of variables, what its headers and proxies carry, and the token that a checkout leaves
in the repository."""

from __future__ import annotations

import binascii
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from agentctl.config.options import Options
from agentctl.config.settings import Settings
from agentctl.core.files import read_limited
from agentctl.core.redact import Redactor
from agentctl.core.types import Problem
from agentctl.providers.gateway import VARIABLE
from agentctl.providers.presets import PRESETS
from agentctl.sandbox.environment import SECRET_LENGTH, find_secrets, is_maskable, sounds_secret

_CI = ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD", "JENKINS_URL")
_SECRET_HEADERS = ("authorization", "proxy-authorization", "cookie")
_PLAIN = re.compile(r"[a-z\W_]*|[A-Z\W_]*|[\d\W_]*")
"""Words and dates: `github-actions`, `application/json`. No secret, unless the header's name says so."""
_MAX_CONFIG = 256 * 1024
_HEADER = "extraheader"
CHECKOUT_TOKEN = "checkout-token"
"""The name under which the token of a checkout is masked."""


def run_secrets(env: Mapping[str, str], settings: Settings) -> tuple[dict[str, str], tuple[Problem, ...]]:
    """Values to mask by name, and what is not masked or should not lie where it lies."""
    secrets, named = find_secrets(env, settings.secret_env)
    addresses = {"proxy": settings.proxy or "", "base-url": settings.base_url or ""}
    secrets |= _way_secrets(env, settings.header, addresses)
    tokens = _checkout_tokens(settings.root) if any(env.get(name) for name in _CI) else []
    if not tokens:
        return secrets, tuple(named)
    secrets.update({CHECKOUT_TOKEN + ("" if n == 0 else f"-{n + 1}"): token for n, token in enumerate(tokens)})
    problem = Problem(
        code="checkout-token",
        what=".git/config",
        why="the checkout left a token there that commands can read; agentctl masks it and does nothing else about it",
        fix="Give actions/checkout the input persist-credentials: false.",
    )
    return secrets, (*named, problem)


def redactor_of(settings: Settings, env: Mapping[str, str]) -> Redactor:
    """What a verb masks that knows its settings."""
    return Redactor(run_secrets(env, settings)[0])


def startup_redactor(env: Mapping[str, str] | None = None, options: Options | None = None) -> Redactor:
    """For what is said outside a run, or before its settings are known: flags and variables alone."""
    env = os.environ if env is None else env
    flags = options or _flags(sys.argv[1:])
    given = env.get("AGENTCTL_SECRET_ENV", "").replace(",", " ").split()
    secrets, _named = find_secrets(env, [*(flags.secret_env or ()), *given])
    addresses = {"proxy": flags.proxy or "", "base-url": flags.base_url or ""}
    headers = [*(flags.header or ()), *env.get("AGENTCTL_HEADER", "").splitlines()]
    return Redactor(secrets | _way_secrets(env, headers, addresses))


def without_password(address: str) -> str:
    """The address with its password or token left out, however plain that is."""
    secret = _of_address(address)
    return address.replace(secret, "[masked]", 1) if secret else address


def _flags(argv: Sequence[str]) -> Options:
    """What the words of a command line say that was not read, because some other word is wrong."""
    found: dict[str, list[str]] = {"header": [], "proxy": [], "base-url": [], "secret-env": []}
    for at, word in enumerate(argv):
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in found:
            found[name] += [value] if equals else argv[at + 1 : at + 2]
    return Options(
        header=tuple(found["header"]),
        secret_env=tuple(found["secret-env"]),
        proxy="".join(found["proxy"][-1:]),
        base_url="".join(found["base-url"][-1:]),
    )


def _way_secrets(env: Mapping[str, str], headers: Iterable[str], addresses: Mapping[str, str]) -> dict[str, str]:
    """What the way to a service carries: values of headers and of the variables in them, passwords in addresses of
    options and of any variable. What is plainly no secret is left alone: masking it would blank out ordinary text."""
    found: dict[str, str] = {}
    named = (line for row in PRESETS.values() for line in env.get(row.headers_variable, "").splitlines())
    for line in (*headers, *named):
        name, _, value = line.partition(":")
        found |= {variable: env.get(variable, "") for variable in VARIABLE.findall(value)}
        values = _header_values(name.strip(), VARIABLE.sub(lambda variable: env.get(variable[1], ""), value))
        found |= {f"header-{name.strip().lower()}" + ("" if n == 0 else f"-{n + 1}"): v for n, v in enumerate(values)}
    for name, address in (*addresses.items(), *((name, value) for name, value in env.items() if "://" in value)):
        password = _of_address(address)
        found |= {f"{name}-password": password, f"{name}-password-2": unquote(password)}
    return {name: value for name, value in found.items() if is_maskable(value)}


def _header_values(name: str, value: str) -> list[str]:
    """The value, and what in it is a secret of its own: `Bearer …`, `Basic …`, `session=…`."""
    is_secret = name.lower() in _SECRET_HEADERS or sounds_secret(name.replace("-", "_"))
    words = [word for word in re.split(r"[\s;,]+", value) if word]
    parts = [value.strip(), *words, *(word.partition("=")[2] for word in words), *map(_password, words)]
    return [part for part in dict.fromkeys(parts) if part and (is_secret or not _PLAIN.fullmatch(part))]


def _checkout_tokens(root: Path) -> list[str]:
    """The values of `http.….extraheader` and the passwords of remotes, in the repository's own configuration and in
    the files that it includes by an absolute path, as actions/checkout writes them. What cannot be read is skipped."""
    lines = _lines(root / ".git" / "config")
    for path in [value for name, value in lines if name == "path" and value.startswith("/")]:
        lines += _lines(Path(path))
    tokens = [word for name, value in lines if name == _HEADER for word in value.split()[-1:]]
    tokens += [_password(token) for token in tokens]
    tokens += [_of_address(value) for name, value in lines if name in ("url", "pushurl")]
    return list(dict.fromkeys(token for token in tokens if len(token) >= SECRET_LENGTH))


def _password(token: str) -> str:
    """What stands behind the user in the value of a Basic header; empty when it is no such value."""
    try:
        return binascii.a2b_base64(token, strict_mode=True).decode().partition(":")[2]
    except ValueError:
        return ""


def _of_address(address: str) -> str:
    """The password of `https://user:password@host/…`, or a token that stands in the place of the user."""
    scheme, found, rest = address.partition("://")
    user, has_user, _ = rest.partition("/")[0].rpartition("@")
    if not found or not has_user or scheme == "ssh":
        return ""
    return user.partition(":")[2] or user


def _lines(path: Path) -> list[tuple[str, str]]:
    try:
        text = read_limited(path, _MAX_CONFIG).decode("utf-8", "replace")
    except OSError:
        return []
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return [(name.strip().lower(), value.strip().strip('"')) for name, _, value in pairs]
