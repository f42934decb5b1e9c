"""The `--allow` value for a call that no rule matched: as narrow as a pattern can say it and still useful next time."""

from __future__ import annotations

from collections.abc import Sequence

from agentctl.policy.patterns import SHELL_SYNTAX
from agentctl.policy.words import Form

_SUBCOMMANDS = frozenset({
    "git", "npm", "pnpm", "yarn", "cargo", "go", "docker", "podman", "kubectl", "helm", "uv", "poetry", "pip", "pip3",
    "pdm", "hatch", "gh", "glab", "dotnet", "terraform", "tofu", "aws", "gcloud", "az", "systemctl", "apt", "apt-get",
    "brew", "bundle", "npx", "rustup", "composer", "deno", "bun", "pre-commit", "sudo", "make", "just", "mise", "conda",
})  # fmt: skip
"""Programs whose first operand says what they do."""


def command_value(tool: str, words: Sequence[Form]) -> str | None:
    """`bash:git push *`. None when the words cannot be written as a pattern."""
    if not words:
        return tool
    taken = [words[0].text]
    rest = list(words[1:])
    if words[0].text in _SUBCOMMANDS or (rest and rest[0].is_static and rest[0].text in ("-m", "-c")):
        while rest and rest[0].is_static:
            word = rest.pop(0).text
            taken.append(word)
            if not word.startswith("-"):
                break
            if word == "-c":
                break
    usable = []
    for word in taken:
        if not word or not word.isprintable() or any(char in word for char in " *?") or SHELL_SYNTAX.search(word):
            break
        usable.append(word)
    return f"{tool}:{' '.join(usable)} *" if usable else None


def path_value(tool: str, name: str) -> str:
    """`write_file:docs/a.md`, with what gitignore would read as a pattern escaped."""
    escaped = "".join(f"\\{char}" if char in "*?[\\" else char for char in name)
    return f"{tool}:{'/' if escaped.startswith('!') else ''}{escaped}"
