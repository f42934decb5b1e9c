"""What commands see of our environment, and which values are masked."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agentctl.core.types import Problem
from agentctl.sandbox.environment import NEVER, PASSED, SET, child_environment, find_secrets, shell_argv

KEYS = {
    "OPENAI_API_KEY": "sk-1234567890",
    "ANTHROPIC_API_KEY": "sk-ant-1234567890",
    "GITHUB_TOKEN": "ghp_0123456789ab",
    "ACTIONS_RUNTIME_TOKEN": "eyJ0eXAi0123",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "eyJ0eXAi4567",
    "AWS_SECRET_ACCESS_KEY": "wJalr/XUtnFEMI",
    "AWS_ACCESS_KEY_ID": "AKIA0123456789",
    "DEPLOY_SECRET": "Tr0ub4dor&3",
    "NPM_AUTH": "bm90IGEgc2VjcmV0",
    "db_password": "Passw0rd!",
}
RUNNER_FILES = {name: f"/runner/{name}" for name in NEVER}
ORDINARY = {
    "PATH": "/opt/bin:/usr/bin",
    "HOME": "/home/ci",
    "LC_ALL": "C.UTF-8",
    "XDG_CACHE_HOME": "/cache",
    "JAVA_HOME_17_X64": "/jdk",
    "CI": "true",
    "CI_COMMIT_SHA": "abc",
}
ODD = {
    "BASH_ENV": "/tmp/x",
    "ENV": "/tmp/x",
    "LD_PRELOAD": "/tmp/x.so",
    "SSH_AUTH_SOCK": "/tmp/agent",
    "RUNNER_TEMP": "/tmp/runner",
    "CI_JOB_JWT": "eyJ",
    "GIT_SSH_COMMAND": "ssh -i key",
    "AGENTCTL_HOME": "/x",
}


def test_commands_get_what_the_table_lists_and_nothing_else() -> None:
    assert child_environment({**KEYS, **RUNNER_FILES, **ORDINARY, **ODD}) == {**ORDINARY, **SET}


def test_pass_env_is_the_users_word_except_for_the_files_of_the_runner() -> None:
    env = {**KEYS, **RUNNER_FILES, **ODD}
    names = ["GITHUB_TOKEN", "GIT_SSH_COMMAND", "NOT_THERE", *NEVER]
    assert child_environment(env, names) == {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        **SET,
        "GITHUB_TOKEN": KEYS["GITHUB_TOKEN"],
        "GIT_SSH_COMMAND": "ssh -i key",
    }


@pytest.mark.parametrize(
    ("address", "is_passed"), [("http://proxy:3128", True), ("http://me:secret@proxy:3128", False)]
)
@pytest.mark.parametrize("name", ["HTTPS_PROXY", "http_proxy"])
def test_a_proxy_with_credentials_stays_here(name: str, address: str, is_passed: bool) -> None:
    assert (name in child_environment({name: address})) is is_passed


def test_no_variable_of_the_table_sounds_secret() -> None:
    names = [name.replace("*", "X") for names in PASSED.values() for name in names]
    assert find_secrets(dict.fromkeys(names, "aB3$aB3$")) == ({}, [])


def test_git_cannot_be_made_to_wait_or_to_run_a_program_of_the_repository(tmp_path: Path) -> None:
    env = child_environment({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, env=env, check=True)
    monitor = tmp_path / "monitor"
    monitor.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    monitor.chmod(0o755)
    subprocess.run(["git", "config", "core.fsmonitor", str(monitor)], cwd=tmp_path, env=env, check=True)
    subprocess.run(["git", "status"], cwd=tmp_path, env=env, check=True, capture_output=True)
    assert not (tmp_path / "ran").exists()
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    commit = ["git", *identity, "commit", "--allow-empty"]
    done = subprocess.run(commit, cwd=tmp_path, env=env, capture_output=True, timeout=5)
    assert done.returncode != 0
    assert b"editor 'false'" in done.stderr


def test_git_obeys_no_repository_that_was_committed_as_files(tmp_path: Path) -> None:
    env = child_environment({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")

    def git(*arguments: str, folder: Path = tmp_path) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["git", *identity, *arguments], cwd=folder, env=env, capture_output=True, check=False)

    assert git("init", "-q", "inner").returncode == 0
    (tmp_path / "inner" / "f").write_text("1\n")
    assert git("add", "f", folder=tmp_path / "inner").returncode == 0
    assert git("commit", "-qm", "x", folder=tmp_path / "inner").returncode == 0
    repository = (tmp_path / "inner" / ".git").rename(tmp_path / "inner" / "r")
    settings = f'[core]\n\tbare = false\n\tworktree = ..\n[diff]\n\texternal = "touch {tmp_path}/ran;:"\n'
    (repository / "config").write_text(settings)
    (tmp_path / "inner" / "f").write_text("2\n")
    for arguments, folder in ((("-C", "inner/r", "diff"), tmp_path), (("diff",), repository / "objects")):
        assert b"Not a git repository" in git(*arguments, folder=folder).stderr
    assert not (tmp_path / "ran").exists()
    assert git("--git-dir=r", "diff", folder=tmp_path / "inner").returncode == 0
    assert (tmp_path / "ran").exists(), "git obeys what is named outright, so rules have to judge that"


@pytest.mark.parametrize("name", [".git", ".GIT", "git~1"])
def test_git_commits_no_folder_that_it_would_take_for_a_repository(name: str, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    listed = ["git", "update-index", "--add", "--cacheinfo", f"100644,{'0' * 39}1,docs/r/{name}/config"]
    added = subprocess.run(listed, cwd=tmp_path, capture_output=True, check=False)
    assert (added.returncode, b"Invalid path" in added.stderr) == (128, True)


def test_secrets_are_found_by_name_and_kind() -> None:
    plain = {
        "PATH": "/a1:B",
        "PWD": "/home/Me1",
        "OLDPWD": "/home/Me2",
        "AGENTCTL_SESSION_KEY": "pr-12345",
        "MONKEY": "aB3$aB3$",
    }
    assert find_secrets({**KEYS, **plain}) == (KEYS, [])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("aB3$", "its value has fewer than 8 characters"),
        ("password", "its value has characters of one kind only"),
        ("1234567890", "its value has characters of one kind only"),
    ],
)
def test_what_is_too_plain_is_named_and_not_masked(value: str, why: str) -> None:
    problem = Problem(
        code="secret-not-masked",
        what="the value of DB_PASSWORD is not masked in output",
        why=f"{why}, so masking it could blank out ordinary text",
        fix="--secret-env DB_PASSWORD masks it regardless",
    )
    assert find_secrets({"DB_PASSWORD": value}) == ({}, [problem])
    assert find_secrets({"DB_PASSWORD": value}, ["DB_PASSWORD"]) == ({"DB_PASSWORD": value}, [])


def test_an_empty_value_is_neither_a_secret_nor_a_problem() -> None:
    assert find_secrets({"DB_PASSWORD": "", "X_TOKEN": "  "}, ["DB_PASSWORD"]) == ({}, [])


def test_the_shell_reads_no_start_up_files(tmp_path: Path) -> None:
    argv, name = shell_argv()
    assert (argv[1:], name) == (("--noprofile", "--norc", "-c"), "bash")
    assert argv[0].endswith("/bash")
    assert shell_argv(str(tmp_path)) == (("sh", "-c"), "sh")
