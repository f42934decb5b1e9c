"""Files that are never written (guard), and files that only a rule naming their path may write (protect): two tables.

Every row holds examples that must and must not trip it; the tests run them, and the docs list them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentctl.core.record import Record
from agentctl.policy.patterns import path_set
from agentctl.policy.places import Place


class PathGuard(Record):
    """A refusal to write a path. `patterns` are gitignore patterns relative to the workspace."""

    id: str
    why: str
    instead: str
    patterns: tuple[str, ...]
    trips: tuple[str, ...]
    passes: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    may_be_filled: bool = False
    """Programs may put files of their own into such a folder (`tar -C build`); only files named by a call are kept."""


SECRET_PATTERNS = (
    ".env", "*.env", ".env.*", "*.env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "id_rsa",
    "id_ed25519", "id_ecdsa", "id_dsa", "id_rsa.pub", "id_ed25519.pub", "id_ecdsa.pub", "id_dsa.pub", ".npmrc",
    ".pypirc", ".netrc", ".pgpass", "credentials.json", "credentials.yaml", "credentials.yml", "credentials.toml",
    "credentials.ini", "secret.json", "secret.yaml", "secret.yml", "secret.toml", "secret.ini", "secrets.json",
    "secrets.yaml", "secrets.yml", "secrets.toml", "secrets.ini", ".aws/", ".ssh/", ".gnupg/", ".git-credentials",
    "**/.docker/config.json", "**/.config/gh/hosts.yml", "**/.config/git/credentials", "**/.cargo/credentials",
    "**/.kube/config", "**/.config/gcloud/", ".azure/",
)  # fmt: skip
SECRET_EXCLUDED = (".env.example", "*.env.example")

PATH_GUARDS: tuple[PathGuard, ...] = (
    PathGuard(
        id="secrets",
        why="files of this kind hold keys",
        instead="Write an example with placeholders (`.env.example`) and say which values people have to fill in.",
        patterns=SECRET_PATTERNS,
        excluded=SECRET_EXCLUDED,
        trips=(".env", "a/.env.local", "prod.env", "id_rsa", "deploy/server.pem", ".ssh/config", "x/credentials.json",
               ".npmrc", "secrets.yaml", "x/.docker/config.json", ".kube/config", ".Env", "ID_RSA"),
        passes=(".env.example", "docker/config.json", "environment.py",
                "src/keys.py", "secrets.py", "id_rsa.md", "docs/ssh/config.md"),
    ),
    PathGuard(
        id="git-internals",
        why="git runs and believes what stands there",
        instead="Use git commands; hooks belong into the project's own folder and are installed by people.",
        patterns=(".git", ".gitmodules"),
        trips=(".git/hooks/pre-commit", ".git/config", ".git/info/attributes", "sub/.git/HEAD", ".git", ".gitmodules",
               ".Git/hooks/pre-commit", ".GIT/config"),
        passes=(".gitignore", ".github/CODEOWNERS", "docs/.gitkeep", "git/x"),
    ),
    PathGuard(
        id="own-rules",
        why="it decides what this and later runs may do",
        instead="Propose the change in the answer; people edit these files.",
        patterns=(".agentctl/policy.toml", ".agentctl/config.toml", ".agentctl/state/", ".agentctl/plugins/"),
        trips=(".agentctl/policy.toml", ".agentctl/config.toml", ".agentctl/state/s1/notebook.md",
               ".AGENTCTL/Policy.toml"),
        passes=(".agentctl/skills/x/SKILL.md", "policy.toml", "src/.agentctl-notes"),
    ),
    PathGuard(
        id="own-folder",
        why="moving or replacing it would replace the rules in it",
        instead="Make single files below it; people edit the rules.",
        patterns=(".agentctl",),
        excluded=("**/.agentctl/**",),
        trips=(".agentctl", "sub/.agentctl", ".AgentCtl"),
        passes=(".agentctl/skills/x/SKILL.md", ".agentctlignore"),
    ),
)  # fmt: skip

OUTSIDE = "outside-workspace"
OUTSIDE_WHY = "it would write outside the workspace"
OUTSIDE_INSTEAD = "Write below the workspace, or have --add-dir name the folder."
OWN_FILES = "own-installation"
OWN_FILES_WHY = "it belongs to agentctl itself"
OWN_FILES_INSTEAD = "Propose the change in the answer; people edit these files."

PROTECTED: tuple[PathGuard, ...] = (
    PathGuard(
        id="lockfiles",
        why="lockfiles are written by the tool that owns them",
        instead="Run that tool (for example `npm install`, `uv lock`), or add a rule whose path names the file.",
        patterns=("bun.lock", "bun.lockb", "package-lock.json", "pnpm-lock.yaml", "yarn.lock", "Cargo.lock",
                  "poetry.lock",
                  "uv.lock", "composer.lock", "go.sum", "Gemfile.lock"),
        trips=("uv.lock", "web/package-lock.json", "Cargo.lock"),
        passes=("lock.py", "package.json", "Cargo.toml"),
    ),
    PathGuard(
        id="build-output",
        may_be_filled=True,
        why="build output is made again by the next build",
        instead="Change the source and build again, or add a rule whose path names the file.",
        patterns=("target/debug/", "target/release/", "dist/", "build/", "out/", ".next/", ".nuxt/", ".svelte-kit/",
                  "coverage/", ".venv/", ".tox/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".turbo/",
                  ".parcel-cache/"),
        trips=("dist/a.js", "web/build/x.css", "target/release/app", ".venv/lib/x.py"),
        passes=("distribution/a.js", "src/builder.py", "target/notes.md", "dist.py", "build"),
    ),
    PathGuard(
        id="vendored-code",
        may_be_filled=True,
        why="vendored code belongs to others",
        instead="Change the dependency or its version, or add a rule whose path names the file.",
        patterns=("node_modules/", "vendor/"),
        trips=("node_modules/x/index.js", "go/vendor/y/z.go"),
        passes=("src/vendors.py", "vendor.py"),
    ),
    PathGuard(
        id="ci-workflows",
        why="workflow files run with the pipeline's own rights",
        instead="Propose the change in the answer, or add a rule whose path names the file.",
        patterns=(".github/workflows/", ".github/actions/", ".gitea/workflows/", ".forgejo/workflows/",
                  ".gitlab-ci.yml",
                  ".gitlab/ci/", ".circleci/", "azure-pipelines.yml", "Jenkinsfile", ".travis.yml", ".drone.yml",
                  "bitbucket-pipelines.yml", ".buildkite/", ".woodpecker/", ".woodpecker.yml", "appveyor.yml"),
        trips=(".github/workflows/ci.yml", "Jenkinsfile", ".gitlab-ci.yml"),
        passes=(".github/CODEOWNERS", "docs/workflows/ci.md", "ci.yml"),
    ),
)  # fmt: skip


class PathTable:
    """Rows with their patterns compiled once."""

    def __init__(self, rows: Sequence[PathGuard], *, folds: bool = False) -> None:
        """With `folds` a name counts that some file system takes for a name of the table."""
        self._rows = [(row, path_set(row.patterns), path_set(row.excluded)) for row in rows]
        self._folds = folds

    def find(self, place: Place) -> PathGuard | None:
        """The first row that one of the place's names trips: as written, or behind symlinks."""
        names = place.all_names
        if self._folds:
            names = (*names, *(other for name in names if (other := folded(name)) != name))
        for row, wanted, free in self._rows:
            if any(wanted.matches(name) and not free.matches(name) for name in names):
                return row
        return None


_IGNORED = dict.fromkeys(
    (*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065), *range(0x206A, 0x2070), 0xFEFF, 0xAD)
)
"""Characters that HFS+ leaves out when it compares names; git refuses `.git` with any of them."""


_SHORT = (
    (re.compile(r"git~\d+"), ".git"), (re.compile(r"(gitmod|gi7eba)~\d+"), ".gitmodules"),
    (re.compile(r"(agentc|ag[0-9a-f]{4})~\d+"), ".agentctl"), (re.compile(r"policy~\d+\.tom"), "policy.toml"),
    (re.compile(r"config~\d+\.tom"), "config.toml"), (re.compile(r"env~\d+"), ".env"),
    (re.compile(r"(npmrc|pypirc|netrc|pgpass)~\d+"), r".\1"),
)  # fmt: skip
"""Names of eight letters and three that NTFS gives to files whose own name is another."""


def folded(name: str) -> str:
    """The name as a file system compares it that knows no case, composes characters and skips invisible ones, or that
    leaves out what NTFS does: dots and spaces at the end, and streams behind a colon."""
    if not name.isascii():
        from unicodedata import normalize  # only for names beyond ASCII

        name = normalize("NFC", name.translate(_IGNORED)).casefold()
    return "/".join(_long_name(segment) for segment in name.lower().split("/"))


def _long_name(segment: str) -> str:
    bare = segment.partition(":")[0].rstrip(". ") or segment
    for pattern, name in _SHORT:
        found = pattern.fullmatch(bare)
        if found:
            return found.expand(name)
    return bare
