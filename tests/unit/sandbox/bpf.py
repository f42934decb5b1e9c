"""A second reading of BPF programs, for filters of machines that the tests do not run on."""

from __future__ import annotations

import struct
from collections.abc import Sequence


def run_filter(program: bytes, audit: int, number: int, arguments: Sequence[int] = ()) -> tuple[str, int]:
    """What the kernel would do with a system call: ("allow", 0) or ("errno", N). Raises for what it would refuse to
    load: jumps out of the program, unknown instructions, no answer at the end."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, audit, 0, *padded)
    lines = [struct.unpack_from("<HBBI", program, at) for at in range(0, len(program), 8)]
    place, register = 0, 0
    while True:
        code, yes, no, word = lines[place]
        if code == 0x20:
            (register,) = struct.unpack_from("<I", data, word)
        elif code == 0x54:
            register &= word
        elif code == 0x06:
            return ("allow", 0) if word == 0x7FFF0000 else ("errno", word & 0xFFFF)
        elif code in (0x15, 0x35, 0x45):
            holds = {0x15: register == word, 0x35: register >= word, 0x45: bool(register & word)}[code]
            place += yes if holds else no
        else:
            raise ValueError(f"instruction {code:#x}")
        place += 1
