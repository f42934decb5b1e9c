"""Ordinary commands pass, commands that carry code or hide what they run do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.policy.policy_world import World

ORDINARY = [
    json.loads(line)["command"]
    for line in (Path(__file__).parents[2] / "cases" / "ordinary_commands.jsonl").read_text().splitlines()
]
OPEN = 'version = 1\nunmatched = "allow"\n'


@pytest.fixture
def world(tmp_path: Path) -> World:
    for name in ("src", "docs", "site"):
        (tmp_path / name).mkdir()
    for name in ("src/a.py", "README.md", "package.json", "a.sh", "scripts.sh"):
        (tmp_path / name).write_text("x")
    return World(tmp_path, OPEN)


def test_ordinary_commands_pass(world: World) -> None:
    """At most 3 of 100 are refused where rules refuse nothing."""
    refused = [(line, world.bash(line).reason) for line in ORDINARY if not world.bash(line).runs]
    assert len(ORDINARY) >= 150
    assert len(refused) <= len(ORDINARY) * 0.03, refused


CODE = (
    "awk 'BEGIN{system(\"x\")}'",
    "awk '{print | \"sh\"}' f",
    "awk '{print > \"f\"}' f",
    "awk -f x.awk f",
    'awk "$p" f',
    "awk 'BEGIN{\"x\" | getline}'",
    "awk '@load \"x\"'",
    "sed '1e x' f",
    "sed 's/a/x/e' f",
    "sed 'w f' g",
    "sed -f x f",
    "sed 'a b\n1e x' f",
    "sed -n '/a/,/b/{p;e x\n}' f",
    'sed "$p" f',
    "sed 's/[/]/x/e' f",
    "sed 'y/a/b/;e' f",
    "tar -I x -cf a b",
    "tar xf a --to-c=x",
    "tar cIf x a b",
    "rg --pre x y",
    "rg -z y",
    "ssh -o ProxyCommand=x h",
    "scp -S x a h:b",
    "rsync -e x a b",
    "sort --compress-program=x f",
    "split --filter=x f",
    "man -P x ls",
    "go test -exec x",
    "git -c core.pager=x log",
    "git -ccore.pager=x log",
    "git --exec-path=x log",
    "git --config-env=a=b log",
    "git config core.pager x",
    "git config alias.a '!x'",
    "git config --global core.hooksPath x",
    "git bisect run x",
    "git submodule foreach x",
    "git rebase -x y main",
    "git rebase --exec y",
    "git clone -c a.b=c u",
    "git fetch --upload-pack=x",
    "git grep -O x",
    "git clone ext::x y",
    "git difftool",
    "git remote-ext x",
    "git push --receive-pack=x",
    "git diff --ext-diff",
    "python3 -c x",
    "python3 -Wignore -c x",
    "python -W ignore -c x",
    "python3 - < f",
    "python3 < f",
    "python3 /dev/stdin",
    "python <(x)",
    "perl -e x",
    "perl -ne x f",
    "ruby -e x",
    "node -e x",
    "node --eval x",
    "node -p x",
    "php -r x",
    "deno eval x",
    "lua -e x",
    "bash <<< x",
    "bash -s < f",
    "bash",
    "sh < f",
    "bash /dev/stdin",
    "bash <(x)",
    "zsh -c x",
    "fish -c x",
    "source f",
    ". f",
    "alias a=b",
    "mapfile -C x a",
    "complete -C x y",
    "bind -x x",
    "hash -p a b",
    "enable -f a b",
    "shopt -s expand_aliases",
    "shopt -s extglob",
    "set -k",
    "set -o keyword",
    "PATH=. x",
    "LD_PRELOAD=x y",
    "IFS=x",
    "BASH_ENV=x y",
    "export GIT_PAGER=x",
    "GIT_SSH_COMMAND=x git fetch",
    "HOME=x git log",
    "declare -x PATH=.",
    "env LD_PRELOAD=x y",
    "PS4=x",
    "export EDITOR=x",
    "PYTHONPATH=x y",
    "declare -i a=b",
    "declare -n a=b",
    "let a=b; b='c[$(x)]'; let b",
    "echo ${v@P}",
    "v=a; echo ${!v}",
    "x=$(y); echo $((x))",
    "read n; echo $((n))",
    "echo $(( $1 ))",
    "a[$(x)]=1",
    "[[ -v a[$(x)] ]]",
    "test -v 'a[$(x)]'",
    "printf -v 'a[$(x)]' y",
    "unset 'a[$(x)]'",
    "read 'a[$(x)]'",
    'find . -exec echo "$x" {} \\;',
    "vim -c x f",
    "parallel x ::: a",
    "watch x",
    "gdb -ex x",
    "script -c x",
    "command_not_found_handle() { x; }",
)


@pytest.mark.parametrize("line", CODE)
def test_code_is_seen(line: str, world: World) -> None:
    """--yolo lets it run, `unmatched = allow` and a bare rule do not."""
    decision = world.bash(line)
    assert (decision.verdict, decision.rule, decision.runs) == ("opaque", "opaque:code", False), decision
    assert not World(world.root, OPEN, allow=["bash", "bash:*"]).bash(line).runs
    assert World(world.root, OPEN, is_yolo=True).bash(line).runs


HIDDEN = (
    "env -S 'x y'",
    "env --unknown x",
    "timeout --odd 5 x",
    "nice --odd x",
    "xargs --odd x",
    "sudo -s",
    "sudo -i",
    "sudo -e f",
    "flock --odd f x",
    "stdbuf -z x",
    "setsid --odd x",
    "busybox $x",
    'env "$x" y',
    "timeout $x y",
    'nohup "$x"',
    "xargs -I{} sh -c '{}'",
    'sh -c "$x"',
    'eval "$x"',
    'trap "$x" EXIT',
    "bash -c",
    "bash --rcfile f -c x",
    "sh -c '[[ a || x ]]'",
    "sh -c '((x))'",
    'sh -c "x <<< y"',
    "sh -c $'x \\x26> y'",
    "find . -exec {} \\;",
    'find . -exec "$x" \\;',
    "$x",
    '"$x" y',
    "$(x)",
    "`x` y",
    "x$y z",
    "l[s] x",
    "l* x",
    "''",
    "сat x",
    'exec "$x"',
    "command $x",
    "echo 'a",
    "if a; then b",
    "echo x > $y",
    "echo x > *",
    "echo x > {a,b}",
    'cat < "$x"',
    'rm "$x"',
    "cat $x",
    'cp "$x" y',
    'mkdir -p "$x"',
    'cd "$x" && touch y',
    "echo $(( 'a[$(x)]' ))",
    "[[ x == @($(y)) ]]",
    "eval " * 25 + "x",
    'cp a "$x"',
    "cat ${x}y",
    'tee "$x"',
)


@pytest.mark.parametrize("line", HIDDEN)
def test_what_cannot_be_followed_is_lifted_by_nothing(line: str, world: World) -> None:
    everything = World(world.root, OPEN, allow=["bash", "bash:*", "*"], is_yolo=True).bash(line)
    assert (everything.verdict, everything.rule, everything.runs) == ("opaque", "opaque:parse", False), everything
    assert everything.allow_with is None


UNWRAPPED = (
    "env -i -u B A=1 canary x",
    "env - canary x",
    "env -C sub -- canary x",
    "timeout -k 5 -s KILL 9 canary x",
    "timeout 5 env canary",
    "nice -n 5 canary",
    "nice -5 canary",
    "nohup canary x",
    "setsid -w canary",
    "stdbuf -oL -e0 canary",
    "ionice -c3 canary",
    "taskset 1 canary",
    "command -p canary",
    "builtin canary",
    "exec -a x canary",
    "sudo -u root -- canary",
    "doas -u x canary",
    "xargs -0 -n1 canary",
    "xargs -I{} canary {}",
    "echo a | xargs canary",
    "busybox canary x",
    "flock -n f canary",
    "flock f -c 'canary x'",
    "time canary",
    "time -p canary",
    "\\time -v canary",
    "coproc canary",
    "coproc x { canary; }",
    "! canary",
    "find . -exec canary {} +",
    "find . -execdir canary {} \\; -print",
    "bash -lc 'canary x'",
    "bash -o pipefail -ec 'canary'",
    "sh -xc 'true; canary'",
    "eval canary x",
    "eval 'canary' x",
    "trap 'canary' INT",
    "trap -- canary EXIT",
    "uv run canary",
    "npx -y canary",
    "poetry run canary x",
    "docker run --rm img canary x",
    "/usr/bin/canary",
    "/bin/../usr/bin/canary x",
    "./canary x",
    "sub/canary",
    "f() { canary; }; f",
    "f() { g() { canary; }; g; }; f",
    "function f { canary; }",
    "canary() { true; }; canary",
    "x=$(canary) true",
    "export x=$(canary)",
    "a=(1 $(canary))",
    "echo ${a:=$(canary)}",
    "echo ${a/b/$(canary)}",
    "cat <<X\n`canary`\nX",
    "case a in $(canary)) ;; esac",
    "for i in $(canary); do true; done",
    "select i in a; do canary; done",
    "if canary; then :; fi",
    "while canary; do :; done",
    "[[ -n $(canary) ]]",
    "echo $(( $(canary) + 1 ))",
    "canary &",
    "(canary)",
    "{ canary; }",
    "true && canary",
    "true || canary",
    "true | canary",
    "true |& canary",
    "canary > f",
    "> f canary",
    "A=1 canary",
    "echo a\ncanary",
    "echo a;canary",
    "can''ary",
    "$'\\x63anary'",
    "can\\\nary",
    "{canary,x}",
    "canary -x --y z",
    "echo >(canary)",
)


@pytest.mark.parametrize("line", UNWRAPPED)
def test_denied_programs_are_found(line: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    decision = World(tmp_path, OPEN, deny=["bash:canary *"], is_yolo=True).bash(line)
    assert (decision.verdict, decision.rule, decision.runs) == ("deny", "deny:bash:canary *", False), decision


TRANSPARENT = (
    "timeout 5 pytest -q",
    "env A=1 pytest",
    "nice pytest",
    "bash -c 'pytest -q'",
    "eval pytest",
    "time pytest",
    "xargs pytest",
    "command pytest",
    "f() { pytest; }; f",
    "nohup pytest > out.log 2>&1 &",
    "/usr/bin/pytest",
)
OPAQUE_TO_ALLOW = (
    "sudo pytest",
    "uv run pytest",
    "./pytest",
    "npx pytest",
    "f; f() { pytest; }",
    "false && f() { pytest; }; f",
    "chroot x pytest",
    "unset -f f; f() { pytest; }; f",
    "(f() { pytest; }); f",
)


def test_what_allow_rules_see_through(tmp_path: Path) -> None:
    world = World(tmp_path, allow=["bash:pytest *", "bash:false", "bash:unset *"])
    for line in TRANSPARENT:
        assert world.bash(line).runs, (line, world.bash(line))
    for line in OPAQUE_TO_ALLOW:
        assert not world.bash(line).runs, line


def test_variables_of_the_line_count(world: World) -> None:
    """Values that the line itself gives are seen by guards, deny rules and the search for code."""
    guarded = (
        "f=--force; git push $f",
        'f=-rf; rm "$f" x',
        "m=777; chmod $m a.sh",
        "for o in -D -d; do git branch $o x; done",
    )
    for line in guarded:
        assert world.bash(line).verdict == "guard", line
    assert world.bash("o=-c; python3 $o x").rule == "opaque:code"
    assert world.bash("x='-c core.pager=y'; git $x log").rule == "opaque:code"
    assert World(world.root, OPEN, deny=["bash:aws iam *"]).bash("s=iam; aws --x $s y").verdict == "deny"
    for line in ("s=status; git $s", 'git push origin "$BRANCH"', "git log $x", "git -C src status"):
        assert world.bash(line).runs, (line, world.bash(line))


def test_without_bash_only_portable_lines_are_judged(tmp_path: Path) -> None:
    world = World(tmp_path, OPEN, is_bash=False)
    for line in ("echo a && echo b", "for i in 1 2; do echo $i; done", "echo $((1+1)) | cat"):
        assert world.bash(line).runs, line
    for line in (
        "[[ a || b ]]",
        "((x))",
        "echo a &> f",
        "cat <<< a",
        "function f { a; }",
        "a |& b",
        "echo $'a'",
        "time a",
    ):
        assert world.bash(line).rule == "opaque:parse", line
