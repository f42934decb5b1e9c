"""The secrets of a run: values of variables, and the token that a checkout leaves in the repository."""

from __future__ import annotations

import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentctl.core.files import read_limited
from agentctl.core.redact import Redactor
from agentctl.core.types import Problem
from agentctl.sandbox.environment import SECRET_LENGTH, find_secrets

_CI = ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD", "JENKINS_URL")
_MAX_CONFIG = 256 * 1024
_HEADER = "extraheader"
CHECKOUT_TOKEN = "checkout-token"
"""The name under which the token of a checkout is masked."""


def run_secrets(
    env: Mapping[str, str], secret_env: Sequence[str], root: Path
) -> tuple[dict[str, str], tuple[Problem, ...]]:
    """Values to mask by name, and what is not masked or should not lie where it lies."""
    secrets, named = find_secrets(env, secret_env)
    tokens = _checkout_tokens(root) if any(env.get(name) for name in _CI) else []
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


def startup_redactor(env: Mapping[str, str] | None = None, secret_env: Sequence[str] | None = None) -> Redactor:
    """For what is said outside a run, or before its settings are known: flags and variables alone."""
    env = os.environ if env is None else env
    given = env.get("AGENTCTL_SECRET_ENV", "").replace(",", " ").split()
    return Redactor(find_secrets(env, [*(secret_env or ()), *given])[0])


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
