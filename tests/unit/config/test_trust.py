"""What the checkout may say: the decision, and reading under it, with real repositories."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from agentctl.config.trust import MAX_BYTES, Trust, WorkspaceReader, decide
from agentctl.core.types import Problem

SHA = "a" * 40
OTHER = "b" * 40
FETCH = "git fetch --no-tags --depth=1 origin"


def github(event: str, **more: str) -> dict[str, str]:
    return {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": event, "GITHUB_SHA": OTHER, **more}


DECISIONS: list[tuple[str, str | None, Mapping[str, str], Trust]] = [
    ("nothing", None, {}, Trust(level="workspace", why="built-in")),
    ("a push", None, github("push"), Trust(level="workspace", why="built-in")),
    ("a flag", "none", github("pull_request"), Trust(level="none", why="--trust")),
    ("a flag that raises", "workspace", github("pull_request"), Trust(level="workspace", why="--trust")),
    (
        "a pull request",
        None,
        github("pull_request", GITHUB_BASE_REF="main"),
        Trust(
            level="base",
            why="GITHUB_EVENT_NAME=pull_request",
            base_refs=("refs/remotes/origin/main",),
            fetch=f"{FETCH} +refs/heads/main:refs/remotes/origin/main",
        ),
    ),
    (
        "its commit is the base of pull_request_target",
        None,
        github("pull_request_target", GITHUB_BASE_REF="release/1.x"),
        Trust(
            level="base",
            why="GITHUB_EVENT_NAME=pull_request_target",
            base_refs=(OTHER, "refs/remotes/origin/release/1.x"),
            fetch=f"{FETCH} {OTHER}",
        ),
    ),
    (
        "a comment",
        None,
        github("issue_comment"),
        Trust(
            level="base",
            why="GITHUB_EVENT_NAME=issue_comment",
            base_refs=(OTHER, "refs/remotes/origin/HEAD"),
            fetch=f"{FETCH} {OTHER}",
        ),
    ),
    (
        "a run after another",
        None,
        github("workflow_run"),
        Trust(
            level="base",
            why="GITHUB_EVENT_NAME=workflow_run",
            base_refs=(OTHER, "refs/remotes/origin/HEAD"),
            fetch=f"{FETCH} {OTHER}",
        ),
    ),
    (
        "a merge request",
        None,
        {
            "CI_PIPELINE_SOURCE": "merge_request_event",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": SHA,
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        },
        Trust(
            level="base",
            why="CI_PIPELINE_SOURCE=merge_request_event",
            base_refs=(SHA, "refs/remotes/origin/main"),
            fetch=f"{FETCH} {SHA}",
        ),
    ),
    (
        "a change in Jenkins",
        None,
        {"CHANGE_ID": "7", "CHANGE_TARGET": "main"},
        Trust(
            level="base",
            why="CHANGE_ID",
            base_refs=("refs/remotes/origin/main",),
            fetch=f"{FETCH} +refs/heads/main:refs/remotes/origin/main",
        ),
    ),
    (
        "base by hand",
        "base",
        {},
        Trust(
            level="base",
            why="--trust",
            base_refs=("refs/remotes/origin/HEAD",),
            fetch=f"{FETCH} +HEAD:refs/remotes/origin/HEAD",
        ),
    ),
    (
        "names that are no names",
        None,
        github("pull_request", GITHUB_BASE_REF="--upload-pack=touch x", GITHUB_EVENT_PATH="/no/such/file"),
        Trust(
            level="base",
            why="GITHUB_EVENT_NAME=pull_request",
            base_refs=("refs/remotes/origin/HEAD",),
            fetch=f"{FETCH} +HEAD:refs/remotes/origin/HEAD",
        ),
    ),
]


@pytest.mark.parametrize(("given", "env", "trust"), [row[1:] for row in DECISIONS], ids=[row[0] for row in DECISIONS])
def test_decisions(given: str | None, env: Mapping[str, str], trust: Trust) -> None:
    assert decide(given, env) == trust


EVENTS = [
    ({"pull_request": {"base": {"sha": SHA}}}, (SHA, "refs/remotes/origin/main")),
    ({"pull_request": {"base": {"sha": "main; rm"}}}, ("refs/remotes/origin/main",)),
    ({"pull_request": None}, ("refs/remotes/origin/main",)),
    ([], ("refs/remotes/origin/main",)),
]


@pytest.mark.parametrize(("event", "refs"), EVENTS)
def test_the_event_file_names_the_base(tmp_path: Path, event: object, refs: tuple[str, ...]) -> None:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(event))
    env = github("pull_request", GITHUB_EVENT_PATH=str(path), GITHUB_BASE_REF="main")
    assert decide(None, env).base_refs == refs


# --- the work tree --------------------------------------------------------------------------------------------------

WORKSPACE = Trust(level="workspace", why="built-in")


def test_a_trusted_workspace_is_read(tmp_path: Path) -> None:
    (tmp_path / ".agentctl").mkdir()
    (tmp_path / ".agentctl" / "config.toml").write_text("x = 1")
    reader = WorkspaceReader(tmp_path, WORKSPACE)
    assert reader.read(".agentctl/config.toml") == b"x = 1"
    assert reader.read("AGENTS.md") is None
    assert reader.read(".agentctl/config.toml/more") is None
    assert (reader.level, reader.problems) == ("workspace", ())


def test_links_and_devices_and_floods_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("secret")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    (root / "dangling").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    (root / "dir").mkdir()
    (root / "flood").write_bytes(b"x" * (MAX_BYTES + 1))
    (root / "full").write_bytes(b"x" * MAX_BYTES)
    reader = WorkspaceReader(root, WORKSPACE)
    refused = ["link", "folder/secret", "dangling", "pipe", "dir", "flood"]
    assert [reader.read(path) for path in refused] == [None] * len(refused)
    assert [problem.what for problem in reader.problems] == refused
    assert reader.problems[0].why == "it is a symbolic link or lies behind one"
    assert reader.problems[5].why == "it is larger than 1 MB"
    assert len(reader.read("full") or b"") == MAX_BYTES


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", ".", "a\0b"])
def test_paths_that_leave_the_root_are_a_mistake_of_the_caller(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError, match="not a path inside the workspace"):
        WorkspaceReader(tmp_path, WORKSPACE).read(path)


def test_what_lies_inside(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "root"
    (root / "ci").mkdir(parents=True)
    (root / "ci" / "policy.toml").write_text("")
    (tmp_path / "outside.toml").write_text("")
    (tmp_path / "alias.toml").symlink_to(root / "ci" / "policy.toml")
    reader = WorkspaceReader(root, WORKSPACE)
    cases = {
        "ci/policy.toml": "ci/policy.toml",
        str(root / "ci" / ".." / "ci" / "policy.toml"): "ci/policy.toml",
        str(tmp_path / "alias.toml"): "ci/policy.toml",
        str(tmp_path / "outside.toml"): None,
        str(root) + "-beside/x": None,
        "missing.toml": "missing.toml",
    }
    assert {path: reader.inside(Path(path)) for path in cases} == cases


def test_without_trust_only_refusals_are_read(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("deny")
    reader = WorkspaceReader(tmp_path, Trust(level="none", why="--trust"))
    assert reader.read("policy.toml") is None
    assert reader.read("missing") is None
    assert reader.problems == (
        Problem(
            code="left-out",
            what="policy.toml",
            why="the workspace is not trusted (--trust)",
            fix="Use --trust workspace if the checkout is yours.",
        ),
    )
    assert reader.read_untrusted("policy.toml") == b"deny"


# --- the base commit ------------------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> str:
    options = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(("git", *options, *arguments), cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


class Change:
    """A repository with a base commit, and a checkout of a change to it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder.resolve() / "checkout"
        self.root.mkdir()
        git(self.root, "init", "-q")
        self.write("AGENTS.md", "from the base\n")
        self.write("sub/policy.toml", "base policy\n")
        self.write("gone.toml", "deny all\n")
        self.write("big", "x" * (MAX_BYTES + 1))
        (self.root / "link").symlink_to("AGENTS.md")
        git(self.root, "add", "-A")
        git(self.root, "commit", "-qm", "base")
        self.base = git(self.root, "rev-parse", "HEAD")
        self.write("AGENTS.md", "evil\n")
        self.write("sub/policy.toml", "evil\n")
        self.write("new.toml", "evil\n")
        (self.root / "gone.toml").unlink()
        git(self.root, "add", "-A")
        git(self.root, "commit", "-qm", "change")

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)

    def trust(self, *refs: str) -> Trust:
        return Trust(level="base", why="event", base_refs=refs or (self.base,), fetch=f"{FETCH} {self.base}")


@pytest.fixture
def change(tmp_path: Path) -> Change:
    return Change(tmp_path)


def test_the_base_commit_speaks_not_the_change(change: Change) -> None:
    reader = WorkspaceReader(change.root, change.trust())
    assert reader.level == "base"
    assert reader.read("AGENTS.md") == b"from the base\n"
    assert reader.read("gone.toml") == b"deny all\n"
    assert reader.read("never.toml") is None
    assert reader.problems == ()
    assert reader.read("new.toml") is None
    assert [(problem.what, problem.why) for problem in reader.problems] == [
        ("new.toml", "it is not in the base commit (event)")
    ]


def test_links_and_floods_of_the_base_are_refused(change: Change) -> None:
    reader = WorkspaceReader(change.root, change.trust())
    assert [reader.read("link"), reader.read("sub"), reader.read("big")] == [None, None, None]
    assert [(problem.what, problem.why) for problem in reader.problems] == [
        ("link", "in the base commit it is not a regular file"),
        ("sub", "in the base commit it is not a regular file"),
        ("big", "in the base commit it is larger than 1,000,000 bytes"),
    ]


def test_a_workspace_below_the_repository_reads_its_own_files(change: Change) -> None:
    reader = WorkspaceReader(change.root / "sub", change.trust())
    assert reader.read("policy.toml") == b"base policy\n"
    assert reader.read("AGENTS.md") is None


def test_the_first_ref_that_is_there_counts(change: Change) -> None:
    git(change.root, "update-ref", "refs/remotes/origin/main", change.base)
    reader = WorkspaceReader(change.root, change.trust(SHA, "refs/remotes/origin/main"))
    assert reader.read("AGENTS.md") == b"from the base\n"


def test_without_the_base_commit_the_fetch_is_named(change: Change) -> None:
    reader = WorkspaceReader(change.root, change.trust(SHA))
    assert (reader.level, reader.read("AGENTS.md"), reader.read("missing")) == ("none", None, None)
    assert reader.problems == (
        Problem(
            code="left-out",
            what="AGENTS.md",
            why=f"the base commit cannot be read (event): {SHA} is not in this clone",
            fix=f"Run before agentctl: {FETCH} {change.base}",
        ),
    )


def test_the_named_fetch_mends_a_shallow_clone(change: Change, tmp_path: Path) -> None:
    git(change.root, "config", "uploadpack.allowAnySHA1InWant", "true")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{change.root}", str(clone))
    trust = change.trust()
    assert WorkspaceReader(clone, trust).read("AGENTS.md") is None
    git(clone, *trust.fetch.split()[1:])
    assert WorkspaceReader(clone, trust).read("AGENTS.md") == b"from the base\n"


def test_a_folder_that_is_no_repository_loads_nothing(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("evil")
    trust = Trust(level="base", why="event", base_refs=(SHA,), fetch="git fetch")
    reader = WorkspaceReader(tmp_path, trust)
    assert reader.read("AGENTS.md") is None
    assert "not a git repository" in reader.problems[0].why


def test_the_repository_runs_nothing(change: Change, tmp_path: Path) -> None:
    program = tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "diff.external", "core.editor"):
        git(change.root, "config", key, str(program))
    git(change.root, "config", "remote.origin.promisor", "true")
    git(change.root, "config", "remote.origin.url", f"ext::{program}")
    git(change.root, "config", "protocol.ext.allow", "always")
    (change.root / "git").symlink_to(program)
    (tmp_path / "ran").unlink(missing_ok=True)
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{change.root}{os.pathsep}{path}"
    try:
        assert WorkspaceReader(change.root, change.trust()).read("AGENTS.md") == b"from the base\n"
        assert WorkspaceReader(change.root, change.trust(SHA)).read("AGENTS.md") is None
    finally:
        os.environ["PATH"] = path
    assert not (tmp_path / "ran").exists()


def test_replaced_objects_do_not_count(change: Change) -> None:
    git(change.root, "replace", change.base, "HEAD")
    assert WorkspaceReader(change.root, change.trust()).read("AGENTS.md") == b"from the base\n"
