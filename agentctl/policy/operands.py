"""Which words of well-known programs are files: one row a program.

Options are written as on a manual page, letters in one group and long names after it: `"kt --key --field-separator"`.
Letters and names of all variants of a program stand here. Where they differ, both readings count; an option that is
not here takes no value, so that the word behind it is judged as a file. `tests/unit/policy/test_programs.py` holds the
table against what the installed programs say of themselves.
"""

from __future__ import annotations

from agentctl.core.record import Record

Access = str
"""read, write, make (a folder: written, but holds nothing yet), fill (files of any name are written into a folder) or
list (names and sizes, no contents)."""


class Operands(Record):
    """How the words after a program name are files."""

    access: Access
    skip: int = 0
    """First operands that are no files (the pattern of grep)."""
    most: int = 0
    """How many operands are files; 0 for all."""
    first: Access = ""
    """Access of the first operand when it differs (zip a.zip b)."""
    last: Access = ""
    """Access of the last operand when there are several (cp a b)."""
    into_folder: bool = False
    """Files keep their name when the last operand is a folder."""
    has_hosts: bool = False
    """`host:path` is no file of this machine."""
    folder: Access = ""
    """What happens to the current folder where no operand names a file (ls)."""
    folder_if: str = ""
    """Options that it takes for that (grep -r)."""
    folder_unless: str = ""
    """Options that keep it from that (unzip -p)."""
    folder_always: bool = False
    """Operands do not change that: they are no folders (wget URL)."""
    downloads: bool = False
    """Operands are URLs, whose last part is the name of a file in the current folder."""

    supplies: str = ""
    """Options that stand for the first operands (grep -e)."""
    values: str = ""
    """Options whose value is no file."""
    optional: str = ""
    """Options whose value, if any, is attached."""
    either: str = ""
    """Letters that take a value in one variant of the program and none in another."""
    writes: str = ""
    """Options whose value is a file that is written."""
    reads: str = ""
    ranges: str = ""
    """Options whose value names a file that is read behind its last colon (git log -L)."""
    marked: str = ""
    """Options whose value names a file that is read behind `@` or `<` (curl -d)."""
    target: str = ""
    """Options that name the folder all operands go to (cp -t)."""
    base: str = ""
    """Options that name the folder from which the program works (git -C); it is used as `folder` says."""
    in_place: str = ""
    """Options that turn reading into writing (sed -i)."""
    makes: str = ""
    """Options that turn all operands into folders that are made (install -d)."""
    lists: str = ""
    """Options that turn what is done to operands into a look at names (git rm --cached)."""
    fed: str = ""
    """Options that take the operands from a file or from the input."""
    pairs: str = ""
    """Long options with two values that are no files (jq --arg)."""
    pair_reads: str = ""
    """The same, but the second value is a file that is read."""
    ends: str = ""
    """Options behind which no operand is a file."""
    plain: str = ""
    """Long options without a value that are the beginning of one with a value."""


_READ = Operands(access="read")
_WRITE = Operands(access="write")
_COPY = Operands(
    access="read", last="write", values="S --suffix --no-preserve --sparse", either="S", into_folder=True,
    target="t --target-directory",
)  # fmt: skip
_GREP = Operands(
    access="read",
    skip=1,
    supplies="ef --regexp --file",
    values="ABCDdem --after-context --before-context --context --devices --directories --regexp --max-count "
    "--binary-files --exclude --exclude-dir --include --label --group-separator",
    reads="f --file --exclude-from",
    folder="read",
    folder_if="rRd --recursive --dereference-recursive --directories",
    plain="--binary",
)
_LS = Operands(
    access="list",
    values="ITw --block-size --format --hide --ignore --indicator-style --quoting-style --sort --tabsize --time "
    "--time-style --width",
    either="ITw",
    folder="list",
)
_DIFF = Operands(
    access="read",
    values="CDFILSUWx --exclude --horizon-lines --ifdef --ignore-matching-lines --label --line-format --palette "
    "--show-function-line --starting-file --tabsize --width",
    reads="X --exclude-from --from-file --to-file",
)
_ZSTD = Operands(
    access="write",
    values="--auto-threads --dictID --format --maxdict --priority --size-hint --stream-size "
    "--target-compressed-block-size",
    optional="TMB",
    writes="o --output-dir-flat --output-dir-mirror --trace",
    reads="D --filelist --patch-from",
)
_XZ = Operands(access="write", values="CFMST --check --format --memlimit --suffix --threads", optional="--files")
_OWNER = Operands(access="write", skip=1, supplies="--reference", values="--from", reads="--reference")
_CHECKSUM = Operands(access="read", values="--length --algorithm")

PROGRAMS: dict[str, Operands] = {
    **dict.fromkeys(
        (
            "cat", "comm", "look", "rev", "source", ".", "sum", "tsort", "zless", "md5sum", "sha1sum", "sha224sum",
            "sha256sum", "sha384sum", "sha512sum", "bat", "batcat",
        ),
        _READ,
    ),
    **dict.fromkeys(("b2sum", "cksum"), _CHECKSUM.replace(values="al --length --algorithm", either="al")),
    **dict.fromkeys(("diff", "colordiff"), _DIFF),
    **dict.fromkeys(("base64", "base32"), Operands(
        access="read", values="bw --wrap --break", reads="i --input", writes="o --output", either="bi",
    )),
    **dict.fromkeys(("zcat",), Operands(access="read", values="S --suffix")),
    **dict.fromkeys(("xzcat",), _XZ.replace(access="read")),
    **dict.fromkeys(("zstdcat",), _ZSTD.replace(access="read")),
    "bzcat": _READ,
    "cmp": Operands(access="read", values="in --ignore-initial --bytes"),
    "column": Operands(
        access="read", values="EHNORTWcilnoprs --output-separator --output-width --separator --table-columns "
        "--table-columns-limit --table-hide --table-name --table-noextreme --table-order --table-right "
        "--table-truncate --table-wrap --tree --tree-id --tree-parent", either="n", plain="--table",
    ),
    "cut": Operands(access="read", values="bcdf --bytes --characters --delimiter --fields --output-delimiter"),
    "date": Operands(access="", values="ds --date --set --rfc-3339", reads="fr --file --reference"),
    "diff3": Operands(access="read", values="L --label --diff-program"),
    "expand": Operands(access="read", values="t --tabs"),
    "fmt": Operands(access="read", values="gpw --goal --prefix --width"),
    "fold": Operands(access="read", values="w --width"),
    "head": Operands(access="read", values="cn --bytes --lines"),
    "hexdump": Operands(access="read", values="ens --format --length --skip", reads="f --format-file"),
    "iconv": Operands(access="read", values="ft --from-code --to-code", writes="o --output"),
    "join": Operands(access="read", values="12aejotv"),
    "less": Operands(
        access="read", values="bhjptxyz --pattern --prompt --tag", either="bhjptxyz", reads="kT --tag-file",
        writes="oO --log-file --LOG-FILE",
    ),
    "more": Operands(access="read", values="n --lines", either="n"),
    "nl": Operands(
        access="read", values="bdfhilnsvw --body-numbering --footer-numbering --header-numbering --join-blank-lines "
        "--line-increment --number-format --number-separator --number-width --section-delimiter --starting-line-number",
    ),
    "nm": Operands(access="read", values="ftU --format --ifunc-chars --plugin --radix --target --unicode", either="U"),
    "objdump": Operands(
        access="read", values="EIMPUbjm --adjust-vma --architecture --ctf-parent --disassembler-color "
        "--disassembler-options --dwarf-depth --dwarf-start --endian --include --insn-width --prefix --prefix-strip "
        "--private --section --start-address --stop-address --target --unicode", either="U",
        optional="CW --disassemble --ctf --demangle --dwarf --sframe --source-comment --visualize-jumps",
        plain="--disassemble --source",
    ),
    "od": Operands(
        access="read", values="AjNtS --address-radix --endian --format --read-bytes --skip-bytes", either="S",
        optional="w --strings --width",
    ),
    "paste": Operands(access="read", values="d --delimiters"),
    "pr": Operands(
        access="read", values="DNWhlow --columns --date-format --first-line-number --header --indent --length "
        "--page-width --width", optional="Sein",
    ),
    "pygmentize": Operands(access="read", values="FOPSfl", writes="o"),
    "readelf": Operands(
        access="read", values="RUpx --ctf --ctf-parent --ctf-strings --ctf-symbols --dwarf-depth --dwarf-start "
        "--hex-dump --relocated-dump --string-dump --sym-base --unicode", either="U",
        optional="wC --debug-dump --demangle --sframe",
    ),
    "sdiff": Operands(
        access="read", values="Iw --diff-program --ignore-matching-lines --tabsize --width", writes="o --output"
    ),
    "shuf": Operands(
        access="read", values="in --head-count --input-range", writes="o --output", reads="--random-source"
    ),
    "sort": Operands(
        access="read", values="kStT --batch-size --buffer-size --compress-program --field-separator --key --parallel "
        "--sort --temporary-directory", writes="o --output", reads="--files0-from --random-source",
        optional="--check",
    ),
    "split": Operands(
        access="read", last="write", values="Cablnt --additional-suffix --bytes --filter --line-bytes --lines "
        "--number --separator --suffix-length", either="b",
    ),
    "strings": Operands(
        access="read", values="Tenst --bytes --encoding --output-separator --radix --target --unicode", either="s"
    ),
    "tac": Operands(access="read", values="s --separator"),
    "tail": Operands(
        access="read", values="cns --bytes --lines --max-unchanged-stats --pid --sleep-interval"
    ),
    "unexpand": Operands(access="read", values="t --tabs"),
    "uniq": Operands(access="read", last="write", values="fsw --check-chars --skip-chars --skip-fields"),
    "xmllint": Operands(
        access="read", values="--encode --maxmem --pattern --xpath", writes="o --output",
        reads="--dtdvalid --path --relaxng --schema --schematron",
    ),
    "xxd": Operands(access="read", last="write", values="cglnos", optional="abCEehiprRuvd"),

    **dict.fromkeys(("ls", "dir", "vdir"), _LS),
    **dict.fromkeys(("realpath", "readlink"), Operands(access="list", values="--relative-base --relative-to")),
    "tree": Operands(
        access="list", values="HILPT --charset --filelimit --sort --timefmt", writes="o", reads="--infofile --gitfile",
        folder="list",
    ),
    "wc": Operands(access="list", reads="--files0-from"),
    "du": Operands(
        access="list", values="BIdt --block-size --exclude --max-depth --threshold --time-style", either="I",
        optional="--time", reads="X --exclude-from --files0-from", folder="list",
    ),
    "file": Operands(
        access="list", values="FPe --exclude --exclude-quiet --separator --parameter",
        reads="fm --files-from --magic-file",
    ),
    "stat": Operands(access="list", values="cft --cached --format --printf", either="ft"),

    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep"), _GREP),
    "rg": Operands(
        access="read", skip=1, supplies="ef --regexp --file --files --type-list",
        values="ABCEMTdegjmrt --after-context --before-context --color --colors --context --context-separator "
        "--dfa-size-limit --encoding --engine --field-context-separator --field-match-separator --generate --glob "
        "--iglob --hostname-bin --hyperlink-format --max-columns --max-count --max-depth --maxdepth --max-filesize "
        "--path-separator --pre --pre-glob --regex-size-limit --regexp --replace --sort --sortr --threads --type "
        "--type-add --type-clear --type-not", either="d", reads="f --file --ignore-file", folder="read",
    ),
    "ag": Operands(
        access="read", skip=1, supplies="g", values="ABCGWgm --after --before --context --depth --file-search-regex "
        "--ignore --ignore-dir --max-count --pager --width --workers", either="ABC", reads="p --path-to-ignore",
        folder="read",
    ),
    **dict.fromkeys(("fd", "fdfind"), Operands(
        access="list", skip=1, values="ESdejt --and --changed-before --changed-within --color --exact-depth --exclude "
        "--extension --format --max-depth --max-results --min-depth --owner --size --threads --type",
        reads="--ignore-file", folder="list", base="C --base-directory", target="--search-path",
    )),

    "awk": Operands(
        access="read", skip=1, supplies="efE --file --exec --source",
        values="Fviel --assign --field-separator --source", reads="fE --file --exec",
    ),
    "sed": Operands(
        access="read", skip=1, supplies="ef --expression --file", values="el --expression --line-length", either="l",
        reads="f --file", optional="iI --in-place", in_place="iI --in-place",
    ),
    "jq": Operands(
        access="read", skip=1, supplies="f --from-file", values="--indent", reads="fL --from-file --library-path",
        ends="--args --jsonargs", pairs="--arg --argjson", pair_reads="--slurpfile --rawfile --argfile",
    ),
    "yq": Operands(
        access="read", skip=1, supplies="--from-file", values="IOfopsw --width --indent --yaml-output-grammar-version",
        either="IOfopsw", reads="--from-file", in_place="i --in-place --inplace",
    ),

    **dict.fromkeys(
        ("rm", "rmdir", "unlink", "gzip", "gunzip", "bzip2", "bunzip2", "dos2unix", "unix2dos", "sponge", "setfacl",
         "chattr", "tee"),
        _WRITE,
    ),
    **dict.fromkeys(("xz", "unxz"), _XZ),
    **dict.fromkeys(("zstd", "unzstd"), _ZSTD),
    "ed": Operands(access="write", values="p --prompt"),
    "shred": Operands(access="write", values="ns --iterations --size", reads="--random-source"),
    "touch": Operands(access="write", values="Adt --date --time", either="A", reads="r --reference"),
    "truncate": Operands(access="write", values="s --size", reads="r --reference"),
    "mknod": Operands(access="write", values="m --mode"),
    "mkfifo": Operands(access="write", values="m --mode"),
    "mkdir": Operands(access="make", values="m --mode"),
    "chmod": _OWNER.replace(supplies="rwxXstugoa --reference"),  # `-x` is a mode, not an option
    "chown": _OWNER,
    "chgrp": _OWNER,
    "cp": _COPY,
    "mv": _COPY.replace(access="write"),
    "ln": _COPY,
    "install": Operands(
        access="read", last="write", values="BDMNSTfghlmo --group --mode --owner --strip-program --suffix",
        either="DST", target="t --target-directory", makes="d --directory", into_folder=True, plain="--strip",
    ),
    "rsync": Operands(
        access="read", last="write", into_folder=True, has_hosts=True,
        values="BM@ef --block-size --bwlimit --chmod --chown --exclude --filter "
        "--include --info --max-size --min-size --out-format --port --rsh --suffix --timeout", either="f",
        reads="--compare-dest --copy-dest --exclude-from --files-from --include-from --link-dest --password-file "
        "--read-batch", writes="T --backup-dir --log-file --partial-dir --temp-dir --write-batch",
        in_place="--remove-source-files",
    ),
    "scp": Operands(access="read", last="write", into_folder=True, has_hosts=True, values="DFJPSXcilo"),
    "curl": Operands(
        access="", values="ACDEHKPQUXYebmrtuyz --connect-timeout --header --max-time --request --retry --url "
        "--user --user-agent --write-out",
        marked="dFHw --data --data-ascii --data-binary --data-urlencode --form --header --json --proxy-header "
        "--url-query --write-out",
        writes="Dco --output --dump-header --cookie-jar --trace --trace-ascii --stderr --libcurl --etag-save --hsts "
        "--alt-svc", target="--output-dir",
        reads="ET --upload-file --cert --key --cacert --etag-compare --netrc-file",
        folder="fill", folder_if="O --remote-name --remote-name-all", folder_always=True, downloads=True,
        optional="--help", plain="--location",
    ),
    "wget": Operands(
        access="", values="ABDIQRTUXlntw --accept --base --domains --exclude-directories --exclude-domains --execute "
        "--header --include-directories --level --method --password --post-data --quota --referer --reject --timeout "
        "--tries --user --user-agent --wait --waitretry", optional="n",
        writes="Oao --append-output --output-document --output-file --rejected-log --save-cookies --warc-file",
        target="P --directory-prefix", reads="i --body-file --ca-certificate --certificate --config --input-file "
        "--load-cookies --post-file --private-key", folder="fill", folder_unless="O --output-document --spider",
        folder_always=True, downloads=True,
    ),
    "unzip": Operands(
        access="read", most=1, values="P", target="d", folder="fill", folder_unless="lptvzZ", folder_always=True
    ),
    "zip": Operands(access="read", first="write", values="Pbnst", either="Pbnst", in_place="m"),
    "patch": Operands(
        access="write", values="BDFVYgpz --basename-prefix --fuzz --get --ifdef --prefix --quoting-style --read-only "
        "--reject-format --strip --suffix --version-control", writes="or --output --reject-file", reads="i --input",
        base="d --directory", folder="fill", plain="--version",
    ),
    "make": Operands(
        access="", values="EWo --eval --old-file --what-if --assume-new --assume-old",
        reads="CIf --file --makefile --directory --include-dir",
    ),
}  # fmt: skip
