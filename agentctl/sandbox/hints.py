"""Lines for the model when a command ran into the sandbox: what refused it, and which flag of a person lifts that."""

from __future__ import annotations

from agentctl.core.record import Record

KEPT = 4096
"""Bytes of each end of the output that are looked at."""

WRITE = (
    "commands may write to the workspace, folders of --add-dir, $TMPDIR and /dev/shm only; "
    "whoever starts agentctl can add a folder with --add-dir DIR"
)


class Sign(Record):
    """What an error message looks like, and what it is about: network, write or call."""

    about: str
    words: tuple[bytes, ...]


SIGNS: tuple[Sign, ...] = (
    Sign(
        about="network",
        words=(
            b"could not resolve host", b"name resolution", b"name or service not known", b"network is unreachable",
            b"getaddrinfo", b"enotfound", b"eai_again", b"failed to connect", b"couldn't connect", b"unable to connect",
            b"connection refused", b"econnrefused", b"failed to establish a new connection", b"could not resolve",
            b"cannot assign requested address", b"socket: operation not permitted", b"creating socket",
            b"temporary failure resolving", b"no route to host", b"socket.socket", b"failed to open socket",
            b"unable to resolve host", b"bad address", b"dial tcp", b"dns error", b"listen eperm", b"socket failed",
        ),
    ),
    Sign(
        about="write",
        words=(b"read-only file system", b"erofs", b"cross-device link", b"exdev", b"permission denied", b"eacces"),
    ),
    Sign(about="call", words=(b"operation not permitted", b"eperm", b"function not implemented")),
)  # fmt: skip


class Ends:
    """Head and tail of what a command wrote, both streams together."""

    def __init__(self) -> None:
        self._head = b""
        self._tail = b""

    def feed(self, chunk: bytes) -> None:
        if len(self._head) < KEPT:
            self._head += chunk[: KEPT - len(self._head)]
        self._tail = (self._tail + chunk[-KEPT:])[-KEPT:]

    @property
    def head(self) -> bytes:
        return self._head

    def find(self) -> list[str]:
        """What the messages are about, each once."""
        text = (self._head + b"\n" + self._tail).lower()
        return [sign.about for sign in SIGNS if any(word in text for word in sign.words)]


def hints(ends: Ends, *, level: int, network: str) -> tuple[str, ...]:
    """At most two lines for a command that failed. `network` is what commands can reach."""
    about = ends.find()
    lines = []
    if "network" in about and network != "on":
        lines.append(_network(level, network))
    if "write" in about:
        lines.append(f"if a write was refused: {WRITE}")
    if about == ["call"]:
        lines.append(_call(level))
    return tuple(f"[sandbox] {line}" for line in lines[:2])


def _network(level: int, network: str) -> str:
    if network == "loopback":
        return (
            "commands have a loopback of their own and reach neither this machine's ports nor the network; "
            "whoever starts agentctl can open it with --network on"
        )
    return f"commands have no network at level {level}; whoever starts agentctl can open it with --network on"


def _call(level: int) -> str:
    unix = " and, at level 2, UNIX sockets" if level == 2 else ""
    return (
        f"system calls for other processes' memory, mounts, namespaces and the kernel{unix} are refused; "
        "whoever starts agentctl can lift that with --sandbox off"
    )
