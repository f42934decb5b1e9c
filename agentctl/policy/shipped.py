"""The profiles that come with agentctl: `builtin:review`, `edit`, `fix`, `commit`, `deps`, as policy files.

A profile is made of parts, each a file of profiles/; what it says of itself is the comment at the head of its own
part. Rules, examples and the text that `policy show` prints are one and the same file for the engine.
"""

from __future__ import annotations

from pathlib import Path

from agentctl.core.errors import PolicyError
from agentctl.core.text import did_you_mean

PREFIX = "builtin:"
FOLDER = Path(__file__).with_name("profiles")
PARTS = {
    "review": ("read", "review"),
    "edit": ("read", "edit"),
    "fix": ("read", "edit", "fix"),
    "commit": ("read", "edit", "fix", "commit"),
    "deps": ("read", "edit", "fix", "deps"),
}
"""Profile: the files that its rules come from. Its own stands last."""
_VERSION = "version = 1\n"


def profile_text(name: str) -> str:
    """The policy file of `builtin:NAME`. Raises PolicyError for a name that is none."""
    profile = name.removeprefix(PREFIX)
    if profile not in PARTS or not name.startswith(PREFIX):
        raise PolicyError(f"there is no profile {name!r}", hint=did_you_mean(name, [PREFIX + known for known in PARTS]))
    parts = [_part(part) for part in PARTS[profile]]
    rules = "\n".join(part[1] for part in parts)
    return f'{parts[-1][0]}{_VERSION}unmatched = "ask"\n{rules}'


def about(profile: str) -> str:
    """What a profile allows and what it does not, as one paragraph."""
    return " ".join(line.lstrip("# ") for line in _part(PARTS[profile][-1])[0].strip().splitlines())


def _part(name: str) -> tuple[str, str]:
    """(the comment at its head, its rules)."""
    head, _, rules = FOLDER.joinpath(f"{name}.toml").read_text("utf-8").partition(_VERSION)
    return head, rules
