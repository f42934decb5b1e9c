"""Random shell lines, most of which try to run the program `canary` in a roundabout way. Made for test_against_bash.py.

Tables of ways, nested at random, then bytes changed at random. Nothing here may start itself again: a function's body
never holds a call of a function, and a line with a function is never changed afterwards (`is_safe` looks once more).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

NAMES = (
    "canary", "can''ary", '"canary"', "'canary'", 'c"an"ary', "\\canary", "c\\anary", "$'\\x63anary'",
    "$'\\143anary'", "can\\\nary", "/usr/bin/canary", "/usr//bin/canary", "/usr/bin/../bin/canary", "/bin/canary",
    "$'can''ary'", '$"canary"', "{canary,x}", "can{ary,}", "canary''", '""canary', "$'\\u0063anary'", "c$'a'nary",
    "'can'\"ary\"", "$v$(echo canary)", "$(echo canary)", "`echo canary`", "${v:-canary}", "${v-canary}",
    "/usr/bin/canar[y]", "/usr/bin/c?nary", "can$v''ary", "can${v}ary", "$'canary\\0x'", "../../usr/bin/canary",
    "{canary,}", "c{anary,x}", "${HOME:+canary}", "canary$v", "$(printf canary)", "$(<n.txt)",
    "~/../../usr/bin/canary",
)  # fmt: skip

ARGUMENTS = ("", " x", " 'a b'", ' "$HOME"', " $v", " -n", " *", " x y", " a=b", " --", " $((1+1))", " {1,2}", " ~")

HARMLESS = (
    "echo a", "true", "false", ":", "cat a.txt", "printf '%s\\n' b", "ls src", "echo \"it's\"", "echo 'a\"b'",
    "echo a\\ b", "echo \\\\", "# canary '", "echo a # ' \"", "grep -c b a.txt", "sed -n 1p a.txt",
    "awk '{print $1}' a.txt", "[ a = a ]", "[[ -n a && b ]]", "test -f a.txt", "x=1", "v=", "echo $((1 + 2))",
    "echo ${HOME}", "echo \"$v\"", "cd src", "cd ..", "set -e", "set +e", "set -u", "wc -l < b.txt", "echo a > c.txt",
    "echo '$(canary)'", "echo '`canary`'", "echo \"\\$(canary)\"", "echo \\$\\(canary\\)", "cat <<'X'\n$(canary)\nX",
    "echo canary", "echo {a,b}", "echo $'a\\'b'", "printf canary", "sort a.txt", "export v=1", "unset v",
    "local v 2> /dev/null", "echo a | cat", "(( 1 < 2 ))", "let v=1", "echo \"${v:-a b}\"", "echo \"${#HOME}\"",
    "shopt -s nullglob", "git status", "find . -name a.txt", "xargs echo < b.txt", "v=canary", "v='canary x'",
    "declare v=1", "echo a 2>&1 >&2", "cat <<-X\n\ta\n\tX", "echo \"a\nb\"", "echo a\\\nb", "true <<< 'a b'",
    "exit 0", "return 2> /dev/null", "shopt -s extglob", "echo @(a|b)", "IFS=:", "v=(canary x)", "read v < a.txt",
    "type canary", "command -v canary",
)  # fmt: skip

QUIET = (
    "echo a", "true", "cat a.txt", "printf b", "echo canary", "echo 'canary x'", "grep -c b a.txt", "[ a = a ]",
    "ls src", "echo $v", "test -f a.txt", "sort a.txt",
)  # fmt: skip
"""For places where most lines hold the stub; all of these fit into backquotes and one line."""

WRAPPERS = (
    "env ", "env -i ", "env A=1 B=2 ", "env -u HOME ", "env - ", "env -- ", "env -C sub ", "env --chdir=src ",
    "env --unset=A ", "env -uA ", "env -vi ", "env --ignore-environment ", "env -0u A ", "env --block-signal=PIPE ",
    "timeout 5 ", "timeout -k 1 5 ", "timeout -s KILL 5s ", "timeout --signal=TERM 5 ",
    "timeout --preserve-status 5 ", "timeout -v -k1 .5m ", "timeout --kill-after 1 5 ", "timeout --fore 5 ", "nice ",
    "nice -n 5 ", "nice -n5 ", "nice -5 ", "nice --adjustment=3 ", "nice --adj 3 ", "nohup ", "nohup -- ", "setsid ",
    "setsid -w ", "setsid -fw ", "stdbuf -oL ", "stdbuf -o0 -e0 ", "stdbuf --output=L ", "stdbuf -i 0 ",
    "ionice -c 3 ", "ionice -c2 -n 3 ", "ionice -t ", "taskset 1 ", "taskset -c 0 ", "flock b.txt ",
    "flock -n b.txt ", "flock -w 1 b.txt ", "flock -xn b.txt ", "flock --timeout 1 b.txt ", "command ", "command -p ",
    "command -- ", "command -pp ", "builtin command ", "exec ", "exec -a x ", "exec -c ", "exec -cl ", "exec -la x ",
    "time ", "time -p ", "! ", "\\time ", "time -- ", "chrt -o 0 ", "setarch -R ", "linux64 ", "prlimit --nofile=64 ",
    "choom -n 0 -- ", "setpriv --nnp ", "unshare -r ", "xargs -a b.txt ", "xargs -n1 ", "echo 1 | xargs ",
    "echo 1 | xargs -n 1 ", "echo 1 | xargs -I{} ", "echo 1 | xargs -t -P2 ", "echo 1 | xargs -i ",
    "echo 1 | xargs -d 1 ", "echo 1 | xargs --max-args=1 ", "echo 1 | xargs -rI % ", "echo 1 | xargs -0 ",
    "echo 1 | xargs --max-procs 1 -L1 ", "echo 1 | xargs --replace=Q ", "A=1 ", "A=1 B='x y' ", "A=$(true) ",
    "v=canary ", "IFS=x ", "A=(1) ", "PATH=/usr/bin ", "2> /dev/null ", "> c.txt ", "< a.txt ", ">> c.txt ", "2>&1 ",
    "<<< a ", "&> c.txt ", "{fd}> c.txt ", "3< a.txt ", "<<X ", "v+=b ", "busybox ", "coproc ", "exec env ",
    "env timeout 5 nice ", "nice nohup setsid stdbuf -oL ", "command exec ", "env -S ", "env --split-string=",
    "sudo -n ", "doas ", "time ! ", "! ! ", "bash -c '\"$@\"' x ", "sh -c '$0 $@' ", "bash -c '$0' ", "eval ",
    "eval -- ", "builtin eval ", "command eval ", "perl -e 'exec @ARGV' ",
)  # fmt: skip

TEMPLATES = (
    # lists, groups, loops
    "{B}; {S}", "{S}; {B}", "{B} && {S}", "{B} || {S}", "{B} | {S}", "{B} |& {S}", "{S} | {B}", "{B}\n{S}",
    "{S}\n{B}", "{ {S}; }", "({S})", "( ({S}) )", "{ ({S}); }", "{S} &", "{B} & {S}", "{B};\n\n{S}", "{B} &&\n{S}",
    "{B} |\n{S}", "! {S}", "time {S}", "time -p { {S}; }", "if {S}; then {B}; fi", "if true; then {S}; fi",
    "if false; then {B}; else {S}; fi", "if false; then :; elif {S}; then {B}; fi", "while {S}; do break; done",
    "until {S}; do break; done", "while true; do {S}; break; done", "for i in 1 2; do {S}; done",
    "for i do {S}; done; {S}", "for i in $({S}); do {B}; done", "for ((i=0; i<1; i++)); do {S}; done",
    "for ((i=0; i<1; i++)) { {S}; }", "case a in a) {S};; esac", "case a in (b|a) {S};& c) {B};; esac",
    "case a in b) {B};; *) {S} ;; esac", "case a in a) {B};;& *) {S};; esac", "case $({S}) in *) {B};; esac",
    "case a in $({S})) {B};; *) ;; esac", "select i in 1; do {S}; break; done <<< 1", "coproc { {S}; }",
    "coproc WORK { {S}; }", "coproc ({S})", "{ {S}; } > c.txt", "({S}) 2> /dev/null", "{ {S}; } <<< a",
    "while read -r i; do {S}; done < a.txt", "{ {S}\n}", "(\n{S}\n)", "{B} | while read -r i; do {S}; done",
    "[[ a == a ]] && {S}", "(( 1 )) && {S}", "{B} # '\n{S}", "{B} \\\n; {S}",
    # substitutions
    "echo $({S})", "echo \"$({S})\"", "echo a$({S})b", "v=$({S})", "v=\"$({S})\"", "export v=$({S})",
    "declare v=$({S})", "readonly r1=$({S})", "v=$({S}) true", "a=($({S}))", "a=([$({S})0]=1)", "a[$({S})0]=1",
    "a[0]=$({S})", "declare -a a=($({S}))", "cat <({S})", "cat < <({S})", "echo b > >({S})", "echo b | tee >({S})",
    "exec 3< <({S})", "true $({S})", ": \"$({S})\"", "echo ${u:-$({S})}", "echo \"${u:-$({S})}\"",
    "echo ${u:=$({S})}", "echo ${HOME:+$({S})}", "echo ${HOME/a/$({S})}", "echo ${HOME//$({S})/b}",
    "echo ${HOME#$({S})}", "echo ${HOME%%$({S})}", "echo ${HOME:$({S})0:1}", "echo ${HOME^^$({S})}",
    "echo ${a[$({S})0]}", "echo ${u:-${u:-$({S})}}", "echo \"${u-\"$({S})\"}\"", "echo ${#a[$({S})0]}",
    "echo ${!u:-$({S})}", "echo $(( $({S})1 + 1 ))", "echo $[ $({S})1 ]", "(( $({S})1 ))", "let \"v=$({S})1\"",
    "echo $(( 1 ? $({S})1 : 0 ))", "[[ -n $({S}) ]]", "[[ a == $({S}) ]]", "[[ a =~ $({S}) ]]", "[ -n \"$({S})\" ]",
    "test x$({S})", "[[ -f $({S}) || a ]]", "[[ $({S})1 -eq 1 ]]", "echo a > \"$({S})c.txt\"", "cat < $({S})a.txt",
    "{S} > $({S})c.txt", "echo a >> c$({S}).txt", "cat <<X\n$({S})\nX", "cat <<-X\n\t$({S})\n\tX",
    "cat <<X\n${u:-$({S})}\nX", "cat <<'X'\n$({S})\nX", "cat <<\"X\"\n$({S})\nX", "cat <<\\X\n$({S})\nX",
    "cat <<< \"$({S})\"", "cat <<< $({S})", "cat <<X\n`{T}`\nX", "cat <<X $({S})\na\nX", "cat <<X; {S}\na\nX",
    "cat <<X && {S}\n'\nX", "cat <<X <<'Y'\n$({S})\nX\n$({S})\nY", "echo $(cat <<X\n$({S})\nX\n)",
    "echo $(cat <<'X'\n'\nX\n); {S}", "cat <<X\n\\$({S})\nX", "cat <<X\n$(( $({S})1 ))\nX", "echo `{T}`",
    "echo \"`{T}`\"", "v=`{T}`", "echo a`{T}`b", "echo \"a`{T}`\"", "echo ${u:-`{T}`}", "$({S})", "\"$({S})\"",
    "`{T}`", "$(echo true) $({S})", "echo $({S}) $({S})", "echo {a,$({S})}", "echo ~$({S})", "echo $({S} # )\n)",
    "echo $( case a in a) {S};; esac )", "echo $( (({V})) )", "{B} {fd}> >({S})",
    # text that is run
    "eval {Q}", "eval {D}", "eval {Q} x", "eval eval {QQ}", "builtin eval {Q}", "command eval {Q}",
    "v={Q}; eval \"$v\"", "v={Q}; eval $v", "\\eval {Q}", "trap {Q} EXIT", "trap {Q} DEBUG; true",
    "trap {Q} ERR; false", "trap -- {Q} 0", "trap {Q} USR1; kill -USR1 $$; true", "sh -c {Q}", "bash -c {Q}",
    "bash -ec {Q}", "bash -c {D}", "bash -c -- {Q}", "bash -o pipefail -c {Q}", "bash --norc -c {Q}",
    "bash -c {Q} x y", "dash -c {Q}", "sh -xec {Q}", "bash -cx {Q}", "bash +x -c {Q}", "rbash -c {Q}", "sh -c {QQ2}",
    "env bash -c {Q}", "/bin/sh -c {Q}", "sh +c {Q}", "bash + -c {Q}", "bash -c - {Q}", "dash -c + {Q}",
    "bash -oc pipefail {Q}", "bash -oO pipefail extglob -c {Q}", "dash -oc errexit {Q}", "bash -s -c {Q}",
    "bash - -c {Q}", "bash -eco pipefail {Q} x", "bash -O extglob -c {Q}", "bash -c {Q} bash",
    "xargs -I{} sh -c {Q} < b.txt", "xargs sh -c {Q} < b.txt", "timeout 5 sh -c {Q}", "flock b.txt -c {Q}",
    "flock -n b.txt -c {Q}", "env A=1 bash -c {Q}", "exec sh -c {Q}", "echo {Q} | sh", "echo {Q} | bash",
    "printf %s {Q} | bash -s", "bash <<< {Q}", "bash -s <<< {Q}", "bash /dev/stdin <<< {Q}", "sh <<'X'\n{S}\nX",
    "bash -s x <<X\n{S}\nX", "bash <(echo {Q})", "source <(echo {Q})", ". <(echo {Q})", ". /dev/stdin <<< {Q}",
    "source /dev/fd/0 <<< {Q}", "source a.txt", ". ./a.txt", "sh < a.txt", "v={Q}; $v", "v={Q}; bash -c \"$v\"",
    "v={P}; echo \"${v@P}\"", "v={P}; echo ${v@P}", "PS4={P}; set -x; true", "PS4={P} bash -xc true",
    "PROMPT_COMMAND={Q}; true", "declare -i n={I}", "declare -i n; n={I}", "let {I}", "let n={I}",
    "v={I}; echo $((v))", "v={I}; (( v ))", "v={I}; [[ v -eq 1 ]]", "v={I}; echo ${HOME:v}", "v={I}; echo ${a[v]}",
    "echo $(( {I} ))", "v={I}; a[v]=1", "v={I}; for ((i=v; i<1; i++)); do :; done", "v={I}; echo $[v]", "unset {I}",
    "test -v {I}", "[ -v {I} ]", "[[ -v {I} ]]", "read {I} <<< 1", "printf -v {I} 1", "v={I}; [[ -v $v ]]",
    "declare {I}=1", "export {I}=1", "typeset -i {I}", "v={I}; echo ${!v}", "declare -n v={I}; echo $v",
    "wait -n -p {I}", "mapfile {I} < a.txt", "getopts a {I}", "v={I}; x=v; echo $((x))",
    "read v <<< {I}; echo $((v))", "local -i v={I}", "printf '%d' {I}", "v={I}; printf -v \"$v\" 1",
    "declare -A m; m[{I}]=1", "v={I}; declare -A m; [[ -v m[$v] ]]", "v={I}; (( a[v] ))", "v={I}; echo $(( 1 + v ))",
    "v={I}; echo ${a:0:v}", "v={I}; let x=v+1", "v={I}; test 1 -eq v", "v={I}; [ v -eq 1 ]",
    "v={I}; while (( v )); do break; done", "v={I}; exit $((v))", "env v={I} bash -c 'echo $((v))'",
    "env v={Q} bash -c 'eval \"$v\"'", "env v={I} sh -c ': $((v))'", "v={I} bash -c 'echo $((v))'",
    "export v={I}; bash -c 'echo $((v))'", "bash -c 'echo $(($1))' x {I}",
    "env GITHUB_SHA='x/e;1e canary' sh -c 'sed \"s/a/$GITHUB_SHA/\" a.txt'",
    "GITHUB_SHA=canary/e; sed \"s/.*/$GITHUB_SHA/\" a.txt",
    "export 'GITHUB_SHA=canary/e'; sed \"s/.*/$GITHUB_SHA/\" a.txt",
    "read -r GITHUB_SHA <<< canary/e; sed \"s/.*/$GITHUB_SHA/\" a.txt", "sed \"s/b/$GITHUB_SHA/\" a.txt; {S}",
    "export 'PATH=.'; tac", "declare 'v={N}'; $v", "declare \"v=$({S})\"", "declare 'v=a[$({S})0]'; echo $((v))",
    "export \"a[$({S})0]=1\"", "readonly 'BASH_ENV=a.txt'; bash -c :",
    # behind runners that a rule allows by name
    "setpriv --nnp sh -c {C}", "prlimit --nofile=64 bash -ec {C}", "chrt -o 0 env A=1 sh -c {C}",
    "setarch -R sh -c {C}",
    "unshare -r timeout 5 bash -c {C}", "v={C}; setpriv --nnp sh -c \"$v\"", "v=-c; setpriv --nnp sh $v {C}",
    "v=sh; prlimit --nofile=64 $v -c {C}", "prlimit --nofile=64 bash <<< {C}", "echo {C} | setpriv --nnp bash",
    "setpriv --nnp find . -maxdepth 0 -exec {N} {} +", "chrt -o 0 xargs -n1 {N} < b.txt", "setpriv --nnp env {N}",
    "setpriv --nnp prlimit --nofile=64 sh -c {C}", "setpriv --nnp bash -c {C} x y", "setpriv --nnp -- sh -c {C}",
    "setpriv --nnp flock b.txt -c {C}", "setpriv --nnp setpriv --nnp env sh -c {C}", "faketime now sh -c {C}",
    "setpriv --nnp busybox sh -c {C}", "script -qc {C} /dev/null", "setarch -R bash -c \"canary $u\"",
    # values that a declaration reads again as arrays
    "{K} -a a={A}", "{K} -A a={A}", "{K} -a {W}", "{K} -gA {W}", "{K} -ra {W}", "{K} -a a=\"$({S})\"",
    "v={A}; {K} -a a=$v", "v={A}; {K} -a \"a=$v\"", "v={W}; {K} -a \"$v\"", "v={W}; {K} -a $v", "{K} a={A}",
    "for v in {A}; do {K} -a \"a=$v\"; done", "v=-a; {K} $v a={A}", "set -- -a {W}; {K} \"$@\"", "{K} -a$u a={A}",
    "a=(1); {K} a={A}", "a=(1); {K} {W}", "a=(); v={A}; {K} a=$v", "a=(1); v={W}; {K} \"$v\"", "a[0]=1; {K} a={A}",
    "declare -a a; {K} a={A}", "declare -A a; {K} {W}", "read -a a <<< 1; {K} a={A}", "read -ra a <<< 1; {K} {W}",
    "mapfile a < a.txt; {K} a={A}", "mapfile < a.txt; {K} MAPFILE={A}", "printf -v 'a[0]' 1; {K} a={A}",
    "read 'a[0]' <<< 1; {K} a={A}", "(( a[0]=1 )); {K} a={A}", "let 'a[0]=1'; {K} a={A}", ": ${a[0]:=1}; {K} a={A}",
    "exec {a[0]}< a.txt; {K} a={A}", "eval 'a=(1)'; {K} a={A}", "trap 'a=(1)' DEBUG; {K} a={A}", "{K} DIRSTACK={A}",
    "coproc WORK { :; }; {K} WORK={A}", "[[ a =~ a ]]; {K} BASH_REMATCH={A}", "{K} BASH_CMDS={A}", "{K} -a a+={A}",
    "{K} -a a[0]={A}", "{K} -a {a,b}={A}", "{K} -a a={x,{A}}", "a=(1); {K} a+={A}", "{K} 'a[0]=1'; {K} a={A}",
    "for v in 1 2; do {K} a={A}; a=(1); done", "{B}; {K} -a {W} && {S}", "(a=(1); {K} a={A})",
    "alpha_one() { {K} -a a={A}; }; alpha_one", "alpha_one() { local -a a; {K} a={A}; }; alpha_one",
    "alpha_one() { {K} -g a={A}; }; a=(1); alpha_one", "declare -n v=a; a=(1); {K} v={A}", "{K} -i n={I}",
    "{K} PATH=.:/usr/bin; tac a.txt", "{K} {I}=1", "v=1; {K} v={I}; echo $((v))", "\\let {I}", "command let v={I}",
    "v={I}; builtin let x=v", "v=1; read -av <<< {I}; echo $((v))", "v=1; printf -vv %s {I}; echo $((v))",
    "v=1; printf -v 'v[0]' %s {I}; echo $((v))", "v=1; command builtin read v <<< {I}; echo $((v))",
    # functions, aliases, names
    "alpha_one() { {S}; }; alpha_one", "function bravo_two { {S}; }; bravo_two",
    "function bravo_two() ({S}); bravo_two x", "alpha_one() if true; then {S}; fi; alpha_one",
    "alpha_one() { {S}; } > c.txt; alpha_one", "tac() { {S}; }; tac a.txt", "alpha_one() { {B}; }; {S}; alpha_one",
    "alpha_one() { {S}; }; trap alpha_one EXIT", "alpha_one() { {S}; }; eval alpha_one",
    "alpha_one() { {S}; }; export -f alpha_one; bash -c alpha_one", "alpha_one() { \"$@\"; }; alpha_one {N}",
    "alpha_one() { $1; }; alpha_one {N}", "alpha_one() { eval \"$1\"; }; alpha_one {Q}", "alias alpha={Q}\nalpha",
    "shopt -s expand_aliases\nalias alpha={Q}\nalpha", "shopt -s expand_aliases; alias alpha={Q}; eval alpha",
    "shopt -s expand_aliases\nalias tac='canary '\ntac x", "BASH_ALIASES[tac]=canary\ntac",
    "shopt -s expand_aliases\nBASH_ALIASES[tac]=canary\ntac", "hash -p /usr/bin/canary tac; tac",
    "enable -n echo; echo", "command_not_found_handle() { canary x; }; no_such_program",
    "BASH_CMDS[tac]=/usr/bin/canary; tac", "mapfile -C canary -c 1 v < a.txt", "mapfile -c1 -C {Q} v < a.txt",
    "readarray -C canary -c1 < a.txt", "complete -C canary x; compgen -C canary x", "compgen -C canary x",
    "compgen -W {P} x", "compgen -F canary x", "bind -x '\"a\":canary'", "PATH=.:/usr/bin; tac a.txt",
    "BASH_ENV=a.txt bash -c true", "BASH_ENV=a.txt sh -c true", "ENV=a.txt sh -ic true",
    "env BASH_ENV=a.txt bash -c :", "export BASH_ENV=a.txt; bash -c :", "BASH_ENV={P} bash -c :",
    "set -- {N} x; \"$@\"", "set -- {N}; $1", "a=({N} x); \"${a[@]}\"", "p={N}; \"$p\" x", "p={N}; $p",
    "read -r p <<< canary; $p", "p=can; q=ary; $p$q", "IFS=:; p=canary:x; $p", "printf -v p canary; $p",
    "p[0]=canary; $p", "for p in {N}; do $p; done", "exec {N}", "exec -a x {N}", "command {N}", "builtin {N}",
    "builtin command {N}", "{N} x || true", "{N}", "{N} < a.txt | cat", "<a.txt {N}", "2>&1 {N} x", "v=1 w=2 {N}",
    "\\{N}", "[ -x /usr/bin/canary ] && {N} x", "time {N}", "{N}& wait", "unset -f {N}; {N}", "test -n \"$({N})\"",
    "p=$(command -v canary); $p", "\"$(which canary)\" x", "type {N}", "declare -f {N}", "{N}; exit", "exit; {N}",
    "v={N} w=x", "echo {N}",
    # programs that carry code
    "sed {X1} a.txt", "sed -n {X1} a.txt", "sed -e p -e {X1} a.txt", "sed 's/.*/canary/e' a.txt",
    "sed 's/^/canary /;s/b/c/e' a.txt", "echo canary | sed e", "sed --expression={X1} a.txt",
    "sed -f - a.txt <<< '1e canary'", "sed -n '/a/{e canary\n}' a.txt", "sed 's/canary/&/ge' a.txt",
    "sed '1{p;e canary\n}' a.txt", "sed -s -n '1!d;e canary' a.txt", "sed 'y/b/c/;1e canary' a.txt",
    "sed '$!N;e canary' a.txt", "sed -E -e 's,canary,canary,me' a.txt", "sed 's/[/]/x/;1e canary' a.txt",
    "sed 's/canary.*/canary/e;w c.txt' a.txt", "sed '1a\\\n1e canary' a.txt", "sed 'a b\\\n;1e canary' a.txt",
    "sed '#n\n1e canary' a.txt", "sed ':a;1e canary\nba' a.txt", "sed '1s/x*/canary/;1e' a.txt",
    "sed '0~1e canary' a.txt", "sed '\\,a,e canary' a.txt", "sed 's\\a\\canary\\e' a.txt",
    "sed 'saaacanaryaea' a.txt", "sed 's/a\\/e canary/x/;1e canary' a.txt", "sed '1,/[/]/e canary' a.txt",
    "sed 's/a/b/w c.txt' a.txt", "sed '1i\\' -e '1e canary' a.txt", "sed '}e canary' a.txt", "sed 1e\\ canary a.txt",
    "awk 'BEGIN{system(\"canary x\")}'", "awk 'BEGIN{\"canary\" | getline}'", "awk 'BEGIN{print 1 | \"canary\"}'",
    "awk '{print > \"/dev/null\"; system($1)}' a.txt", "awk -f - <<< 'BEGIN{system(\"canary\")}'",
    "awk 'BEGIN { x=\"canary\"; x | getline y }'", "awk 'BEGIN{printf \"\" | \"canary\"}'",
    "awk -v c=canary 'BEGIN{system(c)}'", "awk -vc=canary 'BEGIN{system(c)}'", "awk -F: 'BEGIN{system (\"canary\")}'",
    "awk 'BEGIN{s=\"system\"; \"canary\"|getline}' a.txt", "mawk 'BEGIN{system(\"canary\")}'",
    "awk 'BEGIN{print|\"canary\"}'", "awk -- 'BEGIN{system(\"canary\")}'",
    "awk 'BEGIN{close(\"x\");print \"a\" |\n\"canary\"}'", "awk 'BEGIN{printf(\"a\")|\"canary\"}'",
    "awk \"BEGIN{sys$v\"\"tem(\\\"canary\\\")}\"", "awk 'BEGIN{sys\\\ntem(\"canary\")}'",
    "awk '/a/{system(\"canary\")}' a.txt", "awk 'BEGIN{print \"x\" |& \"canary\"}'", "git -c alias.x='!canary' x",
    "git -c core.pager=canary -p log", "GIT_PAGER=canary git -p log", "git -c core.fsmonitor=canary status",
    "git -c core.editor=canary commit --allow-empty", "GIT_EDITOR=canary git commit --allow-empty",
    "git config alias.x '!canary'; git x", "git -c core.sshCommand=canary ls-remote ssh://h/x",
    "GIT_SSH_COMMAND=canary git ls-remote ssh://h/x", "git ls-remote ext::canary",
    "git -c protocol.ext.allow=always ls-remote 'ext::canary'", "git grep -Ocanary canary",
    "git grep --no-index -Ocanary canary", "git grep --no-index --open-files-in-pager=canary b",
    "git diff --no-index --ext-diff a.txt b.txt", "GIT_EXTERNAL_DIFF=canary git diff --no-index a.txt b.txt",
    "git -c diff.external=canary diff --no-index a.txt b.txt", "git difftool --no-index -y -x canary a.txt b.txt",
    "git --config-env=core.pager=v -p log", "git --exec-path=. x", "EDITOR=canary git config -e",
    "git config core.hooksPath .; git commit", "git -c sequence.editor=canary rebase -i x",
    "git submodule foreach canary", "git bisect run canary", "git clone -u canary . c",
    "git clone --upload-pack=canary . c", "git fetch --upload-pack canary .", "git ls-remote --upload-pack=canary .",
    "git -ccore.pager=canary -p log", "git config --global alias.x '!canary' && git x",
    "git -c credential.helper='!canary' credential fill <<< protocol=https",
    "git config set core.pager canary; git -p log", "git -c include.path=../a.txt status", "git filter-branch canary",
    "git -c gpg.program=canary commit -S --allow-empty -m x", "git rebase --exec canary x",
    "git archive --remote=. --exec=canary x", "tar cf /dev/null --checkpoint=1 --checkpoint-action=exec=canary a.txt",
    "tar cf c.tar -I canary a.txt", "tar c --use-compress-program=canary a.txt",
    "tar cf c.tar a.txt; tar xf c.tar --to-command=canary", "tar cf c.tar a.txt && tar xf c.tar --to-c canary",
    "tar --rsh-command=canary -cf h:c a.txt", "TAR_OPTIONS='-I canary' tar cf c.tar a.txt",
    "tar cIf canary c.tar a.txt", "tar -cf c.tar -F canary -L 1 a.txt",
    "tar -cf c.tar --info-script=canary -L1 a.txt", "tar cf c.tar a.txt --use=canary",
    "tar --checkpoint-action exec=canary --checkpoint=1 -cf c.tar a.txt",
    "tar -cf c.tar --checkpoint-a=exec=canary --checkpoint=1 a.txt", "tar -Icanary -cf c.tar a.txt",
    "find . -exec {N} {} \\;", "find . -name a.txt -exec canary {} +", "find . -execdir canary {} \\;",
    "find . -ok canary \\; < a.txt", "find . -exec sh -c {Q} \\;", "find . -exec env canary {} \\;",
    "find . -name a.txt -exec {} \\;", "find . -maxdepth 0 -exec true \\; -exec canary \\;",
    "find . -exec echo {} + -exec canary \\;", "find . -exec bash -c 'canary \"$@\"' x {} +",
    "find . -name x -o -exec canary ';'", "find . '-exec' canary \\;", "sort --compress-program=canary -S 1 a.txt",
    "sort --compress-prog=canary -S1 a.txt b.txt", "split --filter=canary a.txt", "split -b1 --filter {Q} a.txt",
    "split --filt=canary a.txt", "xargs -I{} {} < a.txt", "xargs < a.txt", "xargs -n1 env < a.txt",
    "echo canary | xargs -I{} {} x", "echo canary | xargs timeout 5", "echo canary | xargs -n1 nice",
    "echo canary | xargs -n1 sh -c", "echo canary | xargs command", "xargs -a a.txt env",
    "xargs -a a.txt -I{} sh -c '{}'", "xargs -a a.txt -I{} bash -c 'echo {}; {}'", "xargs -I canary canary < b.txt",
    "xargs -I e echo canary < b.txt", "man -P canary ls", "PAGER=canary man ls", "man -Pcanary bash",
    "less +'!canary' a.txt", "LESSOPEN='|canary %s' less a.txt", "ed -s a.txt <<< '!canary'",
    "vi -es -c '!canary' -c q a.txt", "ed <<< '!canary'", "ssh -o ProxyCommand=canary h",
    "ssh -oProxyCommand=canary h", "ssh -F a.txt h", "scp -S canary a.txt h:b", "scp -oProxyCommand=canary a.txt h:b",
    "rsync -e canary a.txt h:b", "sftp -S canary h", "ssh -o 'proxycommand canary' h", "ssh -o Match='exec canary' h",
    "perl -e 'system(\"canary\")'", "perl -e 'exec \"canary\"'", "perl -ne 'print `canary`' a.txt",
    "perl <<< 'system(\"canary\")'", "perl -Mstrict -we 'system q(canary)'", "perl -le'exec canary' x",
    "sqlite3 :memory: '.shell canary'", "sqlite3 :memory: <<< '.shell canary'",
    "sqlite3 -cmd '.system canary' :memory: .quit", "sqlite3 x.db '.sh canary'", "m4 <<< 'syscmd(canary)'",
    "make -f - <<< 'a:;canary'", "make --eval='a:;canary' a", "make -f a.txt --eval '$(shell canary)'",
    "make 'SHELL=canary' -f a.txt", "dd if=a.txt | sh", "tee c.txt < a.txt | sh", "cat a.txt | bash",
    "env sh < a.txt", "openssl engine canary", "gdb -ex 'shell canary'", "script -c canary",
    "script -qc {Q} /dev/null", "watch -g canary", "busybox sh -c {Q}", "dc <<< '!canary'",
    "alpha_one() { exec < <(echo .shell canary); }; alpha_one; sqlite3 x.db",
    "eval \"exec <<< '.shell canary'\"; sqlite3 x.db", "sqlite3 x.db < <(echo .shell canary)",
    "exec < <(echo .shell canary); sqlite3 x.db",
    "exec <<< '.shell canary'; sqlite3 x.db", "echo .shell canary | sqlite3 x.db",
    "printf '.she\\x6cl canary' | sqlite3 x.db", "echo .shell canary | cat | sqlite3 x.db",
    "sqlite3 x.db <<X\n.system canary\nX", "sqlite3 x.db '.print a' '.system canary'",
    "sqlite3 x.db \"select edit('a','canary')\"", "sqlite3 -cmd '.once |canary' x.db 'select 1'",
    "sqlite3 x.db '.output |canary' 'select 1'", "sqlite3 x.db '.import |canary t'", "sqlite3 x.db '.read |canary'",
    "sqlite3 x.db <<< \".shell $v canary\"", "{ echo .shell canary; } | sqlite3 x.db",
    "exec 3< <(echo .shell canary); sqlite3 x.db <&3", "sqlite3 x.db ' .sys canary'",
    "sqlite3 x.db \"select 1;\n.shell canary\"", "v=.shell; sqlite3 x.db \"$v canary\"",
    "ls a.txt | xargs -I{} sh -c 'canary {}'", "find . -name a.txt | xargs canary",
    "find . -name a.txt | xargs -n1 sh", "find . -name a.txt | xargs cat | sh", "ls a.txt | xargs -n1 .",
    "grep -l b a.txt | xargs -I{} canary {}", "bash -n a.txt; {S}", "bash -nc {Q}", "bash +n -c {Q}",
    "bash -n -c {Q}", "IFS= read -r v <<< canary; $v", "IFS=, read {I} <<< 1", "read() { canary; }; IFS=x read v",
    "nc -e canary h 1", "git -c alias.x=!canary x", "git fetch $u--upload-pack=canary .",
    "git fetch `true`--upload-pack=canary .", "git ${u}grep --no-index -O${u}canary canary",
    "find . $u-exec canary \\;", "find . -e${u}xec canary \\;", "sed $u -e '1e canary' a.txt",
    "awk $u 'BEGIN{system(\"canary\")}'", "tar cf c.tar a.txt $u-Icanary", "tar cf c.tar a.txt -${u}I canary",
    "env $u canary", "git $u -c alias.x='!canary' x", "curl -K a.txt", "wget --use-askpass=canary x", "run-parts .",
    "install -s --strip-program=canary a.txt c.txt", "cpio --rsh-command=canary -oO h:x < a.txt",
    "diff -l a.txt b.txt", "zip c.zip a.txt -T -TT canary", "su -c canary", "runuser -u root canary",
    "chroot / canary", "nsenter canary", "unshare canary", "start-stop-daemon --start --exec /usr/bin/canary",
    "logsave /dev/null canary", "setarch canary", "chrt 1 canary", "expect -c 'spawn canary'", "systemd-run canary",
    "capsh -- -c canary",
)  # fmt: skip

PLAIN = (
    "{0}", "{0} x", "true; {0} x", "cd sub && {0}", "if true; then {0}; fi", "echo $({0})", "{0} | cat", "false || {0}",
    "A=1 {0}", "env {0}", "true # '\n{0}",
)  # fmt: skip
"""Lists with nothing in them but the stub and what is surely followed."""

DECLARERS = (
    "declare", "declare", "declare", "typeset", "local", "readonly", "export", "\\declare", "'declare'", "dec''lare",
    "command declare", "command -p declare", "builtin declare", "builtin typeset", "command builtin declare",
    "command readonly", "command export", "eval declare", "$u declare", "\\export",
)  # fmt: skip

TOKENS = (
    "canary", "canary", "canary x", "canary", "echo", "a", "b", ";", "\n", "&", "&&", "||", "|", "|&", "(", ")", "{",
    "}", " ", " ", " ", "'", '"', "`", "$(", "${", "$((", "))", "))", "((", "<(", ">(", "<<X\n", "\nX\n", "<<'X'\n",
    "<<<", ">", "<", ">c.txt", "2>&1", "\\", "\\\n", "#", " #", "!", "$'", "$\"", "[[", "]]", "[", "]", "=", "v=",
    "$v", "*", "?", "~", "if ", "then ", "fi", "else ", "do ", "done", "for i in ", "case a in ", "a) ", ";;", "esac",
    "while ", "break", "eval ", "true", "false", "time ", "coproc ", "exec ", "env ", "sh -c ", "''", '""', "\\'",
    '\\"', "\\$", "@", "@(", "}", ":-", ";&", ";;&", "\t", "\\\\", "$", "$$", "$!", "|| true", "a[0]=", "function ",
    "select i in a; ", "{a,b}", "..", "%", "^", ",", "-", "--", "+", "\u00a0", "\r", "\x0c", "\x0b", "é", "\\x63",
    "let ", "declare ", "{fd}>c.txt",
)  # fmt: skip

NOISE = "'\"`$(){}[]<>|&;\\\n\t #!*?~=:-%^,@x1\r\u00a0"
_FUNCTION = re.compile(r"\(\s*\)|\bfunction\b|\b(alpha_one|bravo_two|command_not_found_handle)\b")


def single(text: str) -> str:
    """The text as one word, in single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"


def double(text: str) -> str:
    """The text as one word, in double quotes."""
    return '"' + re.sub(r'([$`"\\])', r"\\\1", text) + '"'


def ansi(text: str) -> str:
    """The text as one word, in ANSI-C quotes."""
    return "$'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def is_safe(line: str) -> bool:
    """Whether no function of the line can start itself: calls of functions stand outside of all bodies."""
    names = re.findall(r"([\w.:!-]+)\s*\(\s*\)|\bfunction\s+([\w.:!-]+)", line)
    known = {"alpha_one", "bravo_two", "tac", "command_not_found_handle"}
    if any((first or second) not in known for first, second in names):
        return False
    return len(names) <= 1 and line.count("tac()") + line.count("no_such_program") <= 1


class ShellGenerator:
    """Lines from a seed: the same seed gives the same lines."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def line(self) -> str:
        """One line that is_safe, up to a few hundred characters."""
        while True:
            kind = self._random.random()
            if kind < 0.15:
                line = "".join(self._random.choice(TOKENS) for _ in range(self._random.randint(3, 14)))
            else:
                line = self.statement(self._random.choice((0, 1, 1, 2, 2, 3)))
                if kind > 0.7 and not _FUNCTION.search(line):
                    line = self._changed(line)
            if len(line) < 600 and "\0" not in line and is_safe(line):
                return line

    # --- grammar

    def statement(self, depth: int) -> str:
        """Something that tries to run the stub."""
        if depth <= 0:
            return self.command()
        text = self._random.choice(TEMPLATES)
        return self.filled(text, depth - 1)

    def filled(self, text: str, depth: int) -> str:
        """A template with every place filled."""
        makers: dict[str, Callable[[], str]] = {
            "{S}": lambda: self._inner(depth),
            "{T}": lambda: self._inner(depth, plain=True),
            "{V}": lambda: "1",
            "{B}": lambda: self._random.choice(HARMLESS),
            "{N}": lambda: self._random.choice(NAMES),
            "{Q}": lambda: self._quoted(self._inner(depth)),
            "{D}": lambda: double(self._inner(depth)),
            "{QQ}": lambda: self._quoted(self._quoted(self._inner(depth))),
            "{QQ2}": lambda: self._quoted("sh -c " + self._quoted(self._inner(depth))),
            "{P}": lambda: single(f"$({self._inner(depth)})"),
            "{I}": lambda: single(f"a[$({self._inner(depth)})0]"),
            "{K}": lambda: self._random.choice(DECLARERS),
            "{C}": lambda: self._quoted(self._random.choice(PLAIN).format(self._random.choice(NAMES))),
            "{A}": lambda: self._quoted(self._array(depth)),
            "{W}": lambda: self._quoted("a=" + self._array(depth)),
            "{X1}": lambda: self._quoted("1e " + self.command().replace("\n", "")),
        }
        return re.sub(r"\{(?:[STVBNQDPIKAWC]|QQ2?|X1)\}", lambda found: makers[found.group()](), text)

    def _inner(self, depth: int, *, plain: bool = False) -> str:
        """A statement inside another one: without functions, so that none can start itself; `plain` fits backquotes."""
        if self._random.random() < 0.25:
            return self._random.choice(QUIET)
        while True:
            text = self.statement(self._random.randint(0, max(depth, 0)))
            if not _FUNCTION.search(text) and not (plain and ("`" in text or "\\" in text)):
                return text

    def _array(self, depth: int) -> str:
        """What bash runs when it reads the text as an array."""
        return self._random.choice(("($({0}))", "([$({0})0]=1)", "(x $({0}) y)", '("$({0})")')).format(
            self._inner(depth)
        )

    def command(self) -> str:
        """A simple command that runs the stub, maybe behind wrappers."""
        wrapper = self._random.choice(WRAPPERS) if self._random.random() < 0.35 else ""
        if wrapper and self._random.random() < 0.2:
            wrapper += self._random.choice(WRAPPERS)
        tail = "\na\nX" if wrapper == "<<X " else ""
        return (
            wrapper
            + self._random.choice(NAMES if self._random.random() < 0.6 else ("canary",))
            + self._random.choice(ARGUMENTS)
            + tail
        )

    def _quoted(self, text: str) -> str:
        return self._random.choice((single, single, double, ansi))(text)

    # --- noise

    def _changed(self, line: str) -> str:
        """A few bytes of it inserted, dropped, doubled or swapped."""
        for _ in range(self._random.randint(1, 3)):
            at = self._random.randrange(len(line) + 1)
            way = self._random.randrange(5)
            if way == 0:
                line = line[:at] + self._random.choice(NOISE) + line[at:]
            elif way == 1:
                line = line[:at] + line[at + 1 :]
            elif way == 2:
                end = min(len(line), at + self._random.randint(1, 8))
                line = line[:end] + line[at:end] + line[end:]
            elif way == 3:
                line = line[:at] + line[at + 1 : at + 2] + line[at : at + 1] + line[at + 2 :]
            else:
                line = line[:at] + self._random.choice(TOKENS) + line[at:]
        return line
