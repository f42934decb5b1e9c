"""Ordinary work that must succeed at every level, with the tools that projects use."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from tests.unit.sandbox.sandbox_world import PYTHON, World

if sys.platform != "linux":
    pytest.skip("Landlock, seccomp and namespaces are Linux's", allow_module_level=True)


class Work(NamedTuple):
    """`script` runs in the workspace and must exit 0; `says` stands in its output."""

    name: str
    script: str
    says: str = ""
    needs: str = "bash"


_GIT = "git -c user.name=a -c user.email=a@b.example"
_C = "printf '#include <stdio.h>\\nint main(void){puts(\"made\");return 0;}\\n' > a.c"
_MAKE = "printf 'all: a\\n\\t./a\\na: a.c\\n\\tcc -o a a.c\\n' > Makefile"
_BACKEND = """
import zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    info = "mine_4711-1.dist-info"
    files = {
        "mine_4711.py": "value = 42",
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: mine-4711\\nVersion: 1\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(f"{folder}/mine_4711-1-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return "mine_4711-1-py3-none-any.whl"
"""
_PACKAGE = (
    f"mkdir -p pkg && cat > pkg/backend.py <<'END'\n{_BACKEND}\nEND\n"
    'printf \'[build-system]\\nrequires = []\\nbuild-backend = "backend"\\nbackend-path = ["."]\\n'
    '[project]\\nname = "mine-4711"\\nversion = "1"\\n\' > pkg/pyproject.toml'
)
_PARALLEL = """
import multiprocessing, concurrent.futures, queue

def square(number):
    return number * number

def test_pool():
    with multiprocessing.Pool(2) as pool:
        assert pool.map(square, range(4)) == [0, 1, 4, 9]

def test_executor():
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert list(pool.map(square, range(4))) == [0, 1, 4, 9]

def test_shared():
    value, lock = multiprocessing.Value("i", 7), multiprocessing.Lock()
    with lock:
        assert value.value == 7
"""
_SERVER = """
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b"own loopback")).start()
print(socket.create_connection(server.getsockname()).recv(99).decode())
"""
_MANAGER = """
import multiprocessing
if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    with context.Manager() as manager:
        print("shared", manager.list([1])[0])
"""

EVERYWHERE = (
    Work("pip", f"{_PACKAGE} && {PYTHON} -m pip install -q --no-index --no-build-isolation --target site ./pkg && "
         f"PYTHONPATH=site {PYTHON} -c 'import mine_4711; print(mine_4711.value)'", "42"),
    Work("gcc", f"{_C} && gcc -O2 -o a a.c && ./a", "made", "gcc"),
    Work("make", f"{_C}; {_MAKE}; make -s", "made", "make"),
    Work("cargo", "mkdir -p src && echo 'fn main() { println!(\"made\"); }' > src/main.rs && "
         "printf '[package]\\nname = \"a\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n' > Cargo.toml && "
         "cargo build -q --offline && cargo run -q --offline", "made", "cargo"),
    Work("git", f"git init -q . && echo x > f && git add f && {_GIT} commit -qm one && git branch b && "
         f"echo y >> f && git stash -q && git stash pop -q && {_GIT} commit -qam two && git checkout -q b && "
         "git log --oneline | wc -l", "1", "git"),
    Work("git-local-clone", f"git init -q a && cd a && echo x > f && git add f && {_GIT} commit -qm one && cd .. && "
         "git clone -q a b && cat b/f", "x", "git"),
    Work("pytest", f"cat > test_parallel.py <<'END'\n{_PARALLEL}\nEND\n"
         f"{PYTHON} -m pytest -q --rootdir=. -c /dev/null test_parallel.py", "3 passed"),
    Work("node", "echo 'console.log(require(\"child_process\").execSync(\"echo made\").toString())' > a.js && "
         "node a.js", "made", "node"),
    Work("npm", "mkdir -p lib && echo '{\"name\": \"lib\", \"version\": \"1.0.0\"}' > lib/package.json && "
         "echo '{\"name\": \"app\", \"version\": \"1.0.0\"}' > package.json && "
         "npm install --silent --no-audit --no-fund --offline ./lib && ls node_modules", "lib", "npm"),
    Work("mktemp", "f=$(mktemp) && echo made > \"$f\" && cat \"$f\" && d=$(mktemp -d) && touch \"$d/x\"", "made"),
    Work("shared-memory", "echo made > /dev/shm/agentctl-test && cat /dev/shm/agentctl-test; rm /dev/shm/agentctl-test",
         "made"),
    Work("shell", "cat <(echo made) && echo x > /dev/null && printf '%s\\n' b a | sort > sorted && head -1 sorted && "
         "(sleep 0.05; echo later > f) & wait; cat f; : > /dev/stderr", "made"),
    Work("move", "mkdir -p one two && echo made > one/f && mv one/f two/ && ln two/f hard && ln -s two/f soft && "
         "cat soft", "made"),
    Work("cache", "mkdir -p \"$XDG_CACHE_HOME/x\" && touch \"$XDG_CACHE_HOME/x/y\" && echo $TMPDIR && "
         "test -w \"$TMPDIR\" && echo made", "made"),
    Work("sqlite", f"{PYTHON} -c 'import sqlite3; c = sqlite3.connect(\"a.db\"); c.execute(\"create table t(x)\"); "
         "c.commit(); print(\"made\")'", "made"),
    Work("asyncio", f"{PYTHON} -c 'import asyncio; print(asyncio.run(asyncio.create_subprocess_exec(\"true\")) and 1)'",
         "1"),
    Work("permissions", "echo x > f && chmod 755 f && touch -d 2001-01-01 f && stat -c %a f", "755"),
    Work("who", "id -un && python3 -c 'import pwd, os; print(pwd.getpwuid(os.getuid()).pw_name)' && date && hostname"),
)  # fmt: skip
AT_LEVEL_3 = (
    Work("loopback", f"cat > s.py <<'END'\n{_SERVER}\nEND\n{PYTHON} s.py", "own loopback"),
    Work("forkserver", f"cat > m.py <<'END'\n{_MANAGER}\nEND\n{PYTHON} m.py", "shared 1"),
    Work("tmp", "echo made > /tmp/agentctl-x && cat /tmp/agentctl-x && cat \"$TMPDIR/agentctl-x\"", "made"),
    Work("terminal", f"{PYTHON} -c 'import pty; print(pty.spawn([\"echo\", \"made\"]))'", "made"),
)  # fmt: skip
MISSING = sorted({work.needs for work in EVERYWHERE if not shutil.which(work.needs)})


@pytest.fixture
def world() -> Iterator[World]:
    base = Path(__file__).parents[3] / ".pytest_cache"
    base.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=base) as folder:
        yield World(Path(folder).resolve())


def test_the_tools_that_matter_are_here() -> None:
    assert not {"gcc", "make", "git", "node"} & set(MISSING), f"the work table needs {MISSING}"


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("work", [row for row in EVERYWHERE if row.needs not in MISSING], ids=lambda row: row.name)
def test_ordinary_work_succeeds(work: Work, level: int, world: World) -> None:
    if level == 1:
        work = work._replace(script=f"export XDG_CACHE_HOME=$PWD/c TMPDIR=/tmp; {work.script}")
    ran = world.run(level, _toolchains(work.script), timeout_s=60)
    assert (ran.end.exit_code, work.says in ran.out) == (0, True), ran
    assert not [note for note in ran.end.notes if "command" in note], "guarded files were taken for changed"


@pytest.mark.parametrize("work", AT_LEVEL_3, ids=lambda row: row.name)
def test_level_3_does_more(work: Work, world: World) -> None:
    ran = world.run(3, work.script)
    assert (ran.end.exit_code, work.says in ran.out) == (0, True), ran


def _toolchains(script: str) -> str:
    """The tests have an empty HOME; rustup looks for its toolchains there."""
    import os
    import pwd

    home = pwd.getpwuid(os.getuid()).pw_dir
    return f"export RUSTUP_HOME=${{RUSTUP_HOME:-{home}/.rustup}}; {script}"
