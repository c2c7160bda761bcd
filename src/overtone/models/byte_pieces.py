"""Text of token pieces some of which stand for single bytes, written <0xE2>."""

from __future__ import annotations

import re
from collections.abc import Iterable

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def join_pieces(pieces: Iterable[str]) -> str:
    """Pieces to text; bytes that are no UTF-8 become U+FFFD, and only they (tokenizers' own decoder gives up the whole run)."""
    spelled = bytearray()
    for piece in pieces:
        byte = _BYTE.fullmatch(piece)
        spelled += bytes([int(byte[1], 16)]) if byte else piece.encode()
    return spelled.decode("utf-8", "replace")
