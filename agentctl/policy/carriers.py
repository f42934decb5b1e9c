"""Where text of a command becomes code of another program: interpreters, and options of programs for other work.

Tables first. `find_code` answers for one simple command; shell text is not here, commands.py parses and judges it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agentctl.core.record import Record
from agentctl.policy.code import Code
from agentctl.policy.databases import mysql_code, psql_code, sqlite_code
from agentctl.policy.git_options import git_code
from agentctl.policy.streams import awk_code, jq_code, sed_code
from agentctl.policy.words import UNKNOWN, Form

SHELLS = frozenset({"sh", "bash", "dash", "ash", "rbash"})
"""Shells whose text is parsed and judged."""
OTHER_SHELLS = frozenset({"zsh", "ksh", "ksh93", "mksh", "pdksh", "fish", "csh", "tcsh", "pwsh", "nu", "elvish", "rc"})

CODE_TAKERS = SHELLS | OTHER_SHELLS | {"eval", "source", ".", "python", "perl", "ruby", "node", "nodejs", "php", "lua"}
"""Programs whose words can be code (or a file of code)."""

_INTERPRETERS: dict[str, str] = {
    "python": "c", "pypy": "c", "perl": "eE", "ruby": "e", "node": "ep", "nodejs": "ep", "php": "rBRE", "lua": "e",
    "luajit": "e", "Rscript": "e", "R": "e", "tclsh": "", "wish": "", "expect": "c", "osascript": "e", "groovy": "e",
    "scala": "e", "julia": "eE", "elixir": "e", "erl": "", "ghc": "e", "guile": "c", "racket": "e", "sbcl": "",
    "clisp": "x", "irb": "", "ipython": "c", "bun": "e", "deno": "", "jshell": "", "swipl": "g", "m4": "", "dc": "e",
}  # fmt: skip
"""Letters of options that carry code. Without a script operand they read it from stdin."""

_LONG_CODE: dict[str, tuple[str, ...]] = {
    "node": ("--eval", "--print", "--require", "--import", "--loader", "--experimental-loader"),
    "nodejs": ("--eval", "--print", "--require", "--import"),
    "bun": ("--eval", "--print", "--preload"),
    "php": ("--run",),
    "julia": ("--eval", "--print"),
    "elixir": ("--eval", "--rpc-eval"),
    "sbcl": ("--eval",),
    "racket": ("--eval",),
}

_RUNS_OTHERS = frozenset({
    "source", ".", "parallel", "watch", "expect", "script", "at", "batch", "gdb", "lldb", "vim", "vi", "nvim", "view",
    "ex", "ed", "emacs", "nano", "tmux", "screen", "su", "runuser", "crontab", "entr", "socat", "telnet",
    "systemd-run", "start-stop-daemon", "nsenter", "unshare", "chroot", "strace", "ltrace", "gcore", "rlwrap",
})  # fmt: skip
"""Programs made to run other code in ways that cannot be followed here: an allow rule has to name them."""


class CodeOptions(Record):
    """Options of one program that make it run code. Long ones also match when they are abbreviated."""

    letters: str = ""
    words: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    """Texts that make the value of any option code (ssh -o ProxyCommand=…), compared in lower case."""


_CODE_OPTIONS: dict[str, CodeOptions] = {
    "tar": CodeOptions(
        letters="IF",
        words=(
            "--checkpoint-action", "--use-compress-program", "--to-command", "--info-script", "--new-volume-script",
            "--rsh-command", "--rmt-command",
        ),
    ),
    "rg": CodeOptions(letters="z", words=("--pre", "--search-zip", "--hostname-bin")),
    "ssh": CodeOptions(
        letters="FI",
        values=("proxycommand", "localcommand", "knownhostscommand", "proxyusefdpass", "match", "pkcs11provider",
                "securitykeyprovider", "xauthlocation", "include"),
    ),
    "scp": CodeOptions(letters="SDF", values=("proxycommand", "localcommand", "knownhostscommand", "pkcs11provider")),
    "sftp": CodeOptions(letters="SDFb", values=("proxycommand", "localcommand", "knownhostscommand")),
    "rsync": CodeOptions(letters="e", words=("--rsh", "--rsync-path", "--early-input")),
    "sort": CodeOptions(words=("--compress-program",)),
    "split": CodeOptions(words=("--filter",)),
    "man": CodeOptions(letters="PH", words=("--pager", "--html", "--browser")),
    "zip": CodeOptions(words=("-TT", "--unzip-command")),
    "wget": CodeOptions(words=("--use-askpass", "--execute"), letters="e"),
    "curl": CodeOptions(letters="K", words=("--config",)),
    "cpio": CodeOptions(words=("--rsh-command", "--rmt-command")),
    "gcc": CodeOptions(words=("-wrapper", "-fplugin", "-specs", "-B")),
    "g++": CodeOptions(words=("-wrapper", "-fplugin", "-specs", "-B")),
    "cc": CodeOptions(words=("-wrapper", "-fplugin", "-specs", "-B")),
    "clang": CodeOptions(words=("-fplugin", "-load", "-B")),
    "go": CodeOptions(words=("-exec", "-toolexec", "-vettool", "--exec", "--toolexec", "--vettool")),
    "cargo": CodeOptions(words=("--config",)),
    "openssl": CodeOptions(words=("-engine", "-provider", "-provider-path")),
    "less": CodeOptions(values=("+!", "+|")),
    "mapfile": CodeOptions(letters="C"),
    "readarray": CodeOptions(letters="C"),
    "complete": CodeOptions(letters="CFW"),
    "compgen": CodeOptions(letters="CFW"),
    "bind": CodeOptions(letters="x"),
    "hash": CodeOptions(letters="p"),
    "enable": CodeOptions(letters="f"),
    "fc": CodeOptions(letters="es"),
    **dict.fromkeys(
        ("nc", "ncat", "netcat", "nc.openbsd", "nc.traditional"),
        CodeOptions(letters="ec", words=("--exec", "--sh-exec", "--lua-exec")),
    ),
    "nmap": CodeOptions(words=("--script",)),
    "make": CodeOptions(letters="E", words=("--eval",), values=("shell=", ".shellflags=", "makeflags=")),
    "install": CodeOptions(words=("--strip-program",)),
    "npm": CodeOptions(words=("--script-shell", "--node-options")),
}  # fmt: skip

_QUIET_VALUES = frozenset({"", "cat", "true", ":", "less", "0", "1"})
_QUIET_VARIABLES = frozenset({
    "PAGER", "GIT_PAGER", "MANPAGER", "EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_MERGE_AUTOEDIT",
    "GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_LFS_SKIP_SMUDGE", "GIT_TRACE",
})  # fmt: skip
"""Variables that may be set to a value that runs nothing."""
_FREE_VARIABLES = frozenset({
    "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_DATE", "GIT_ADVICE", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONUTF8",
    "PYTHONIOENCODING", "PIP_NO_INPUT", "PIP_DISABLE_PIP_VERSION_CHECK", "npm_config_yes", "npm_config_loglevel",
})  # fmt: skip
_LANGUAGE_VARIABLES = frozenset({
    "PYTHONPATH", "NODE_PATH", "NODE_OPTIONS", "MAKEFLAGS", "PYTEST_ADDOPTS", "PYTEST_PLUGINS", "RUBYLIB", "PERL5LIB",
    "CLASSPATH", "GOFLAGS", "RUSTFLAGS", "JAVA_TOOL_OPTIONS", "MAVEN_OPTS", "GRADLE_OPTS", "CARGO_HOME", "GOPATH",
})  # fmt: skip
_CODE_VARIABLES = frozenset({
    "PATH", "IFS", "CDPATH", "ENV", "BASHOPTS", "SHELLOPTS", "SHELL", "PS0", "PS1", "PS2", "PS3", "PS4",
    "PROMPT_COMMAND", "EXECIGNORE", "GLOBIGNORE", "FUNCNEST", "HISTFILE", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH",
    "NLSPATH", "HOSTALIASES", "HOME", "SSH_ASKPASS", "SUDO_ASKPASS", "SUDO_EDITOR", "PAGER", "MANPAGER", "EDITOR",
    "VISUAL", "FCEDIT", "BROWSER", "LESSOPEN", "LESSCLOSE", "LESS", "LESSEDIT", "MANOPT", "RIPGREP_CONFIG_PATH",
    "TAR_OPTIONS", "CVS_RSH", "GREP_OPTIONS", "PERL5OPT", "PERL5DB", "PERLLIB", "RUBYOPT", "RUBYSHELL",
    "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "MAKEFILES", "MAKESHELL", "AWKPATH", "AWKLIBPATH", "INPUTRC", "TERMCAP",
    "KUBECONFIG", "KUBE_EDITOR", "TMPDIR", "PHPRC", "PHP_INI_SCAN_DIR", "WGETRC", "CURL_HOME", "NETRC",
})  # fmt: skip
_CODE_PREFIXES = (
    "BASH_", "LD_", "DYLD_", "MALLOC_", "XDG_", "GIT_", "RSYNC_", "PYTHON", "NODE_REPL_", "npm_config_", "NPM_CONFIG_",
    "PIP_", "UV_", "RUSTC", "TERMINFO", "OPENSSL_", "PSQL_", "DOCKER_", "LUA_", "BUNDLE_", "GEM_", "AGENTCTL_",
)  # fmt: skip
_CODE_ENDINGS = ("_RUNNER", "_LINKER", "_WRAPPER", "_LAUNCHER")


def script_from_input(name: str) -> Code:
    """An interpreter without a script."""
    return Code(what=f"{name} runs a script from its input", is_interpreter=True, is_from_input=True)


def dangerous_assignment(name: str, value: Form | None) -> Code | None:
    """Whether setting this variable makes later programs run something else."""
    if name in _LANGUAGE_VARIABLES:
        return Code(what=f"the variable {name} decides which code a program loads", is_interpreter=True)
    if name in _QUIET_VARIABLES and value is not None and value.is_static and value.text in _QUIET_VALUES:
        return None
    is_code = name in _CODE_VARIABLES or name.startswith(_CODE_PREFIXES) or name.endswith(_CODE_ENDINGS)
    if not is_code or name in _FREE_VARIABLES:
        return None
    return Code(what=f"the variable {name} decides what other programs run")


def dangerous_change(name: str) -> Code | None:
    """The same for a variable that is given a value in another way than NAME=value: `read`, `for`, `${NAME:=…}`."""
    return dangerous_assignment(name.partition("[")[0], None)


def dangerous_number(name: str) -> Code | None:
    """The same for arithmetic, which may set what it names, to a number: `PATH=0` is a folder."""
    return dangerous_change(name) if name in _CODE_VARIABLES or is_guarding(name) else None


def is_guarding(name: str) -> bool:
    """Whether programs are safer with the variable than without it: without PATH the shell looks into its folder,
    without GIT_CONFIG_COUNT and what it counts git obeys every repository below."""
    return name == "PATH" or name.startswith("GIT_CONFIG_")


def named_assignment(word: Form) -> Code | None:
    """The same for a word that a declaration reads as NAME=value or as a name: `export "PATH=."`."""
    if word.text[:1] in ("-", "+"):
        return None
    name, equals, value = word.text.partition("=")
    if "[" in name and any(mark in name for mark in ("$", "`", UNKNOWN)):
        return Code(what="a variable name with a subscript is evaluated as code")
    return dangerous_assignment(name.rstrip("+"), Form(text=value)) if equals else None


def base_name(name: str) -> str:
    """python3.11 → python, gawk → awk and so on: versions and variants share a row."""
    stem = name.rstrip("0123456789.")  # no regular expression: they are quadratic here
    if stem in ("gawk", "mawk", "nawk", "original-awk"):
        return "awk"
    return {"gsed": "sed", "gtar": "tar", "gmake": "make", "bsdtar": "tar", "pypy": "python", "gfind": "find"}.get(
        stem, stem or name
    )


def find_code(words: Sequence[Form], stdin: str = "") -> Code | None:
    """What code the command carries in its words, if any. Shells, eval and trap are not looked at here. `stdin` is
    what it reads from its input, as far as the line shows it; UNKNOWN stands for what another program writes there."""
    full = words[0].text
    name = base_name(full)
    args = words[1:]
    client = _CLIENTS.get(full)
    if client:
        return client(args, stdin)
    special = _SPECIAL.get(full) or _SPECIAL.get(name)
    if special:
        found = special(args)
        if found:
            return found
    if name in _INTERPRETERS:
        return _interpreter(name, args)
    if full in OTHER_SHELLS:
        return _other_shell(full, args)
    if full in _RUNS_OTHERS or full in ("source", "."):
        return Code(what=f"{full} runs code that cannot be followed here", is_interpreter=True)
    row = _CODE_OPTIONS.get(full) or _CODE_OPTIONS.get(name)
    return _code_option(full, row, args) if row else None


_SKIPPED = {"python": "WX", "ruby": "IrE", "perl": "I", "node": "r", "nodejs": "r", "php": "dczS", "lua": "l"}
"""Letters of interpreter options whose value is the next word."""


def _interpreter(name: str, args: Sequence[Form]) -> Code | None:
    from_input = script_from_input(name)
    if name == "deno":
        is_eval = not args or any(word.text in ("eval", "repl") for word in args)
        return Code(what="deno runs code from its arguments", is_interpreter=True) if is_eval else None
    at = 0
    while at < len(args):
        text = args[at].text
        if text == "-" or text.startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd/")):
            return from_input
        if args[at].is_many or not text.startswith("-"):
            return None  # a script, or what a loader such as -m takes
        if _carries_code(name, text):
            return Code(what=f"{name} {text[:20]} runs code from its arguments", is_interpreter=True)
        if text in ("--version", "--help", "-V", "-h") or (text == "-v" and len(args) == 1):
            return None
        if name == "python" and text.startswith("-m"):
            return None
        at += 2 if len(text) == 2 and text[1] in _SKIPPED.get(name, "") else 1
    return None if name in ("m4", "irb", "bun") and args else from_input


def _carries_code(name: str, text: str) -> bool:
    if text.startswith("--"):
        return text.split("=")[0] in _LONG_CODE.get(name, ())
    if name == "python" and text.startswith("-m"):
        return False
    return any(letter in text[1:] for letter in _INTERPRETERS[name])


def _other_shell(name: str, args: Sequence[Form]) -> Code | None:
    if args and args[0].is_static and not args[0].text.startswith(("-", "+")):
        return None
    if not args:
        return script_from_input(name)
    return Code(what=f"{name} runs text in a shell language that is not judged here", is_interpreter=True)


def _code_option(name: str, row: CodeOptions, args: Sequence[Form]) -> Code | None:
    for at, word in enumerate(args):
        text = word.text
        hit = ""
        if text.startswith("--") and len(text) > 3:
            option = text.split("=")[0]
            hit = option if any(known.startswith(option) for known in row.words) else ""
        elif text.startswith("-") and any(text.startswith(known) for known in row.words):
            hit = text
        if not hit and text.startswith("-") and not text.startswith("--"):
            hit = next((f"-{letter}" for letter in row.letters if letter in text[1:]), "")
        if not hit and name == "tar" and at == 0 and any(letter in text for letter in row.letters):
            hit = text
        if not hit and any(value in text.lower() for value in row.values):
            hit = text
        if hit:
            return Code(what=f"{name} {hit.replace(UNKNOWN, '…')[:40]} can make it run other programs")
    return None


# --- shell builtins ------------------------------------------------------------------------------------------------


def _alias(args: Sequence[Form]) -> Code | None:
    if any("=" in word.text or not word.is_static for word in args):
        return Code(what="an alias changes what later words run")
    return None


_PLAIN_SUBSCRIPT = re.compile(r"\[(-?\w+|[@*])\]$", re.ASCII)


def _is_code_name(word: Form) -> bool:
    """The shell evaluates the subscript of a name, so the name has to be known or to have none that computes."""
    return UNKNOWN in word.text or ("[" in word.text and not _PLAIN_SUBSCRIPT.search(word.text))


def _names(
    values: str = "", named: str = "", skip: int = 0, has_operands: bool = True, is_removal: bool = False
) -> Callable[..., Code | None]:
    """The rule of a builtin that changes variables: letters with a value, letters whose value is a name, operands
    before the one name when there are some, whether operands are names at all, and whether it takes them away."""

    def judge(args: Sequence[Form]) -> Code | None:
        words = list(args)
        names: list[Form] = []
        while words and words[0].text.startswith("-") and len(words[0].text) > 1:
            option = words.pop(0).text
            at = next((at for at, letter in enumerate(option) if at and letter in values + named), 0)
            if option == "--":
                break
            if at:
                value = Form(text=option[at + 1 :]) if option[at + 1 :] else words.pop(0) if words else Form(text="")
                names += [value] if option[at] in named else []
        names += words[skip : skip + 1 if skip else None] if has_operands else []
        if any(map(_is_code_name, names)):
            return EVALUATED
        changed = [name.text for name in names if not is_removal or is_guarding(name.text)]
        return next(filter(None, map(dangerous_change, changed)), None)

    return judge


EVALUATED = Code(what="a variable name with a subscript is evaluated as code")


def _test(args: Sequence[Form]) -> Code | None:
    is_sure = all(word.is_static for word in args)
    for at, word in enumerate(args):
        is_name = at and args[at - 1].text in ("-v", "-R")
        if (is_name and _is_code_name(word)) or (
            not is_sure and "[" in word.text and any(mark in word.text for mark in ("$", "`", UNKNOWN))
        ):
            return EVALUATED
    return None


def _make(args: Sequence[Form]) -> Code | None:
    """A makefile that is no file."""
    for at, word in enumerate(args):
        value = _MAKEFILE.match(word.text)
        name = value.group(1) if value else ""
        if value and (name or (args[at + 1].text if at + 1 < len(args) else "")).startswith(("-", "/dev/", "/proc/")):
            return script_from_input("make")
    return None


_MAKEFILE = re.compile(r"(?:-[a-zA-Z]*f|--(?:file|makefile)(?:=|$))(.*)", re.DOTALL)


def _set(args: Sequence[Form]) -> Code | None:
    for at, word in enumerate(args):
        follows = args[at + 1].text if at + 1 < len(args) else ""
        if word.text == "--":
            return None
        if word.text[:1] in "-+" and ("k" in word.text[1:] or follows == "keyword"):
            return Code(what="set -k turns arguments into variables")
    return None


def _shopt(args: Sequence[Form]) -> Code | None:
    if any(word.text in ("expand_aliases", "extglob") or not word.is_static for word in args):
        return Code(what="this shell option changes how later lines are read")
    return None


_CLIENTS: dict[str, Callable[[Sequence[Form], str], Code | None]] = {
    "sqlite3": sqlite_code,
    "sqlite": sqlite_code,
    "psql": psql_code,
    "mysql": mysql_code,
    "mariadb": mysql_code,
}
_SPECIAL: dict[str, Callable[[Sequence[Form]], Code | None]] = {
    "git": git_code,
    "awk": awk_code,
    "sed": sed_code,
    "jq": jq_code,
    "alias": _alias,
    "read": _names("dinNptu", "a"),
    "unset": _names(is_removal=True),
    "wait": _names(named="p", has_operands=False),
    "getopts": _names(skip=1),
    "mapfile": _names("dnOsuCc"),
    "readarray": _names("dnOsuCc"),
    "printf": _names(named="v", has_operands=False),
    "test": _test,
    "[": _test,
    "make": _make,
    "gmake": _make,
    "set": _set,
    "shopt": _shopt,
}
