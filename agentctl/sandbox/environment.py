"""Which environment a command gets, and which values of ours are secrets. Two tables; `doctor` prints the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentctl.core.spawn import DEFAULT_PATH, find_program
from agentctl.core.types import Problem

PASSED: dict[str, tuple[str, ...]] = {
    "locale": ("LANG", "LANGUAGE", "LC_*", "TZ"),
    "user and folders": ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "XDG_*_HOME", "XDG_RUNTIME_DIR"),
    "C and system libraries": (
        *("CC", "CXX", "CPP", "LD", "AR", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS", "CMAKE_*"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PKG_CONFIG_PATH", "SDKROOT", "DEVELOPER_DIR", "CCACHE_DIR"),
    ),
    "Python": (
        *(
            "VIRTUAL_ENV",
            "PYTHONPATH",
            "PYTHONUTF8",
            "PYTHONIOENCODING",
            "PYTHONHASHSEED",
            "PYENV_ROOT",
            "pythonLocation",
        ),
        *("CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PIP_CACHE_DIR", "PIPX_HOME", "PIPX_BIN_DIR", "POETRY_HOME"),
        *("UV_CACHE_DIR", "UV_PYTHON_INSTALL_DIR", "UV_PROJECT_ENVIRONMENT", "UV_TOOL_DIR", "UV_LINK_MODE"),
    ),
    "JavaScript": (
        *("NODE_PATH", "NODE_ENV", "NVM_DIR", "NVM_BIN", "VOLTA_HOME", "PNPM_HOME", "BUN_INSTALL", "DENO_DIR"),
        *("YARN_CACHE_FOLDER", "npm_config_cache", "NPM_CONFIG_CACHE", "PLAYWRIGHT_BROWSERS_PATH", "COREPACK_HOME"),
    ),
    "Go and Rust": (
        *(
            "GOROOT",
            "GOPATH",
            "GOBIN",
            "GOCACHE",
            "GOMODCACHE",
            "GOFLAGS",
            "GOTOOLCHAIN",
            "GOOS",
            "GOARCH",
            "CGO_ENABLED",
        ),
        *("CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_INCREMENTAL", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "RUSTFLAGS"),
        "RUST_BACKTRACE",
    ),
    "Java, .NET, Ruby, PHP, others": (
        *(
            "JAVA_HOME",
            "JAVA_HOME_*",
            "JDK_HOME",
            "M2_HOME",
            "MAVEN_HOME",
            "GRADLE_HOME",
            "GRADLE_USER_HOME",
            "SBT_HOME",
        ),
        *("ANDROID_HOME", "ANDROID_SDK_ROOT", "ANDROID_NDK_*", "KOTLIN_HOME", "DOTNET_ROOT", "DOTNET_CLI_HOME"),
        *("NUGET_PACKAGES", "GEM_HOME", "GEM_PATH", "RBENV_ROOT", "BUNDLE_PATH", "COMPOSER_HOME", "COMPOSER_CACHE_DIR"),
        *("ELIXIR_HOME", "MIX_HOME", "HEX_HOME", "GHCUP_INSTALL_BASE_PREFIX", "STACK_ROOT", "NIX_PATH", "NIX_PROFILES"),
        *("ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR", "HOMEBREW_PREFIX", "HOMEBREW_CELLAR", "SOURCE_DATE_EPOCH"),
    ),
    "certificates and proxies": (
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        *("GIT_SSL_CAINFO", "PIP_CERT", "NIX_SSL_CERT_FILE", "NO_PROXY", "no_proxy", "HTTP_PROXY", "http_proxy"),
        *("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"),
    ),
    "who commits": ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"),
    "CI markers": (
        *("CI", "CONTINUOUS_INTEGRATION", "BUILD_NUMBER", "BUILD_ID", "BUILD_URL", "NO_COLOR", "CLICOLOR"),
        *("GITHUB_ACTIONS", "GITHUB_WORKSPACE", "GITHUB_REPOSITORY", "GITHUB_REPOSITORY_OWNER", "GITHUB_SHA"),
        *("GITHUB_REF", "GITHUB_REF_NAME", "GITHUB_REF_TYPE", "GITHUB_HEAD_REF", "GITHUB_BASE_REF", "GITHUB_ACTOR"),
        *("GITHUB_EVENT_NAME", "GITHUB_RUN_ID", "GITHUB_RUN_NUMBER", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB"),
        *("GITHUB_WORKFLOW", "GITHUB_SERVER_URL", "GITHUB_API_URL", "RUNNER_OS", "RUNNER_ARCH", "RUNNER_TOOL_CACHE"),
        *("AGENT_TOOLSDIRECTORY", "ImageOS", "ImageVersion", "GITLAB_CI", "CI_COMMIT_*", "CI_PROJECT_DIR"),
        *("CI_PROJECT_PATH", "CI_PROJECT_NAME", "CI_PIPELINE_ID", "CI_PIPELINE_SOURCE", "CI_JOB_ID", "CI_JOB_NAME"),
        *("CI_MERGE_REQUEST_IID", "CI_DEFAULT_BRANCH", "BUILDKITE", "BUILDKITE_BRANCH", "BUILDKITE_COMMIT"),
        *("CIRCLECI", "CIRCLE_BRANCH", "CIRCLE_SHA1", "TF_BUILD", "BUILD_SOURCEBRANCH", "BUILD_SOURCEVERSION"),
        *(
            "JENKINS_URL",
            "JOB_NAME",
            "GIT_BRANCH",
            "GIT_COMMIT",
            "TRAVIS",
            "DRONE",
            "BITBUCKET_COMMIT",
            "TEAMCITY_VERSION",
        ),
    ),
}
"""Variables that commands inherit, by why. `*` stands for any characters."""

_MAY_HOLD_CREDENTIALS = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
"""Passed only when the address has no user part."""

_LOOKS_SECRET_BUT_IS_NOT = frozenset({"PWD", "OLDPWD", "AGENTCTL_AUTH", "AGENTCTL_SESSION_KEY"})

SET: dict[str, str] = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "GH_PAGER": "cat",
    "EDITOR": "false",
    "VISUAL": "false",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GCM_INTERACTIVE": "never",
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "safe.bareRepository",
    "GIT_CONFIG_VALUE_1": "explicit",
    "GH_PROMPT_DISABLED": "1",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
}
"""What commands get regardless: nothing pages, nothing opens an editor, nothing asks, git runs no program that a
repository names as its file system monitor, and obeys no repository that was committed as ordinary files."""

NEVER = frozenset(
    {"GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY", "AGENTCTL_APPROVAL_KEY"}
)
"""Files that change the steps that follow, and the key with which a command could approve its own calls; not even
--pass-env hands them to a command."""

SECRET_NAMES = (
    *(
        "*TOKEN",
        "*TOKEN_*",
        "*_KEY",
        "*APIKEY",
        "*API_KEY*",
        "*_KEY_ID",
        "*_SECRET",
        "*_SECRET_*",
        "SECRET_*",
        "SECRET",
    ),
    *("*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*_PASS", "*_PWD", "*CREDENTIAL*", "*_PAT", "*_AUTH", "*_DSN"),
    *("*CONNECTION_STRING*", "*_WEBHOOK_URL", "*PRIVATE_KEY*", "*ACCESS_KEY*"),
)
"""A variable with such a name (case is ignored) holds a secret."""

SECRET_LENGTH = 8


def child_environment(env: Mapping[str, str], pass_env: Sequence[str] = ()) -> dict[str, str]:
    """The whole environment of a command: what PASSED lets through, SET, and what `pass_env` names.

    A name in `pass_env` is the user's word and wins over SET, except for NEVER. No key of a provider is in PASSED.
    """
    patterns = [name for names in PASSED.values() for name in names]
    kept = {
        name: value
        for name, value in env.items()
        if _matches(name, patterns) and not (name.upper() in _MAY_HOLD_CREDENTIALS and "@" in value)
    }
    named = {name: env[name] for name in pass_env if name in env and name not in NEVER}
    return {"PATH": DEFAULT_PATH, **kept, **SET, **named}


def shell_argv(path: str | None = None) -> tuple[tuple[str, ...], str]:
    """What stands before a command line, and the name of the shell for people. Bash reads no start-up files; without
    bash it is `sh`. `path` is the PATH of commands."""
    bash = find_program("bash", path)
    if bash is None:
        return ("sh", "-c"), "sh"
    return (bash, "--noprofile", "--norc", "-c"), "bash"


def find_secrets(env: Mapping[str, str], secret_env: Sequence[str] = ()) -> tuple[dict[str, str], list[Problem]]:
    """The values to mask, by name, and the variables that sound secret but are too plain to be masked safely.

    A value counts when it has at least 8 characters of more than one kind (lower case, upper case, digits, others);
    anything else would blank out ordinary words. `secret_env` masks its variables regardless of name and value; an
    empty value masks nothing.
    """
    secrets: dict[str, str] = {}
    problems: list[Problem] = []
    for name, value in env.items():
        if name in secret_env and value:
            secrets[name] = value
        elif value.strip() and sounds_secret(name):
            if is_maskable(value):
                secrets[name] = value
            else:
                problems.append(_left_out(name, value))
    return secrets, problems


def is_maskable(value: str) -> bool:
    """Whether masking the value everywhere leaves ordinary words alone."""
    return len(value) >= SECRET_LENGTH and _kinds(value) > 1


def sounds_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    upper = name.upper()
    return upper not in _LOOKS_SECRET_BUT_IS_NOT and _matches(upper, SECRET_NAMES)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Patterns are a word, `A*`, `*Z`, `A*Z` or `*M*`. Compiling them as regular expressions takes 5 ms a run."""
    for pattern in patterns:
        head, star, tail = pattern.partition("*")
        if not star:
            if name == pattern:
                return True
        elif tail.endswith("*"):
            if tail[:-1] in name:
                return True
        elif name.startswith(head) and name.endswith(tail) and len(name) >= len(head) + len(tail):
            return True
    return False


def _kinds(value: str) -> int:
    tests = (str.islower, str.isupper, str.isdigit, lambda char: not char.isalnum())
    return sum(any(test(char) for char in value) for test in tests)


def _left_out(name: str, value: str) -> Problem:
    why = (
        f"its value has fewer than {SECRET_LENGTH} characters"
        if len(value) < SECRET_LENGTH
        else "its value has characters of one kind only"
    )
    return Problem(
        code="secret-not-masked",
        what=f"the value of {name} is not masked in output",
        why=f"{why}, so masking it could blank out ordinary text",
        fix=f"--secret-env {name} masks it regardless",
    )
