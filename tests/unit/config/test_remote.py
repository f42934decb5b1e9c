from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agentctl.config.paths import Homes
from agentctl.config.remote import plain_remote, remote_of
from agentctl.config.store import find_store, record_store


def git(folder: Path, *words: str) -> None:
    env = {"GIT_CONFIG_GLOBAL": "/dev/null", "PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(folder)}
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *words], cwd=folder, env=env, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("https://github.com/o/r.git", "github.com/o/r"),
        ("https://x-access-token:ghs_SECRET@GitHub.com/o/r", "github.com/o/r"),
        ("git@github.com:o/r.git", "github.com/o/r"),
        ("ssh://git@github.com/o/r/", "github.com/o/r"),
        ("ssh://git@host:2222/o/r.git", "host:2222/o/r"),
        ("github.com:o/r", "github.com/o/r"),
        ("/srv/git/r.git", "/srv/git/r"),
        ("../r.git", "../r"),
        ("file:///srv/r.git", "/srv/r"),
    ],
)
def test_a_remote_is_the_same_however_it_is_written_and_holds_no_token(url: str, plain: str) -> None:
    assert plain_remote(url) == plain


def test_what_git_says_of_clones_work_trees_and_submodules(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q")
    assert remote_of(repository) is None
    git(repository, "remote", "add", "upstream", "https://example.com/up/r.git")
    assert remote_of(repository) == "example.com/up/r"
    git(repository, "remote", "add", "origin", "git@example.com:o/r.git")
    (repository / "sub").mkdir()
    assert remote_of(repository / "sub") == "example.com/o/r"
    git(repository, "commit", "-q", "--allow-empty", "-m", "x")
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert remote_of(tmp_path / "tree") == "example.com/o/r"
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "submodule", "add", "-q", str(repository), "inner")
    assert remote_of(other / "inner") == str(repository)


@pytest.mark.parametrize("content", ["", "gitdir:", "gitdir: /nowhere", "\0\xff", '[remote "origin"]\nurl'])
def test_odd_git_files_are_no_remote(tmp_path: Path, content: str) -> None:
    (tmp_path / ".git").write_text(content)
    assert remote_of(tmp_path) is None
    (tmp_path / ".git").unlink()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text(content)
    assert remote_of(tmp_path) is None


def test_another_remote_has_a_store_of_its_own_and_finds_it_again(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    git(root, "init", "-q")
    places = Homes(**{name: tmp_path / name for name in Homes.fields})

    def used(url: str | None, name: str | None = None) -> tuple[str, str | None]:
        if url:
            git(root, "config", "remote.origin.url", url)
        store = find_store(places, root, name)
        folder = places.sessions(store.key)
        folder.mkdir(parents=True, exist_ok=True)
        record_store(folder, store)
        return store.key, store.replaces

    first, _ = used(None)  # not known yet: taken on when it is
    assert used("https://example.com/o/one.git") == (first, None)
    assert used("git@example.com:o/one") == (first, None)
    second, replaced = used("https://example.com/o/two")
    assert (second != first, replaced) == (True, "example.com/o/one")
    assert used("https://t:oken@example.com/o/two") == (second, None)
    assert used("https://example.com/o/one") == (first, None)
    assert used("https://example.com/o/one", "web") == used("https://example.com/o/two", "web")
