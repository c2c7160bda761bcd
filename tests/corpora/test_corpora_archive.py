"""Packed archives as verified streams."""

import bz2
import gzip
import hashlib
import zipfile

import pytest

from overtone.corpora.archive import open_content
from overtone.errors import UserError

TEXT = b"".join(b"line %d of the archive\n" % number for number in range(20_000))
DIGEST = hashlib.sha256(TEXT).hexdigest()


def pack(path, packing, text=TEXT):
    if packing == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("../../../etc/evil", text)
    else:
        path.write_bytes({"none": bytes, "bz2": bz2.compress, "gzip": gzip.compress}[packing](text))
    return path


def content(packing, **more):
    return {"packing": packing, "member": "../../../etc/evil", "bytes": len(TEXT), "sha256": DIGEST} | more


def read(path, described):
    with open_content(path, described) as stream:
        return b"".join(stream)


@pytest.mark.parametrize("packing", ["none", "bz2", "gzip", "zip"])
def test_content_comes_out_whole_and_nothing_is_written(tmp_path, packing):
    path = pack(tmp_path / "archive", packing)
    assert read(path, content(packing)) == TEXT
    assert [entry.name for entry in tmp_path.iterdir()] == ["archive"]


@pytest.mark.parametrize("packing", ["bz2", "gzip", "zip"])
def test_damage_is_a_user_error_wherever_it_is(tmp_path, packing):
    path = pack(tmp_path / "archive", packing)
    whole = path.read_bytes()
    for place in range(0, len(whole), len(whole) // 23):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        try:
            found = read(path, content(packing))
        except UserError as error:
            found = TEXT if str(path) in str(error) else b""
        assert found == TEXT  # refused, or a byte that nothing depends on, such as gzip's time stamp
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match="fetch it again"):
            read(path, content(packing))


def test_other_content_is_a_user_error(tmp_path):
    path = pack(tmp_path / "archive", "bz2", TEXT[:-1] + b"!")
    with pytest.raises(UserError, match=f"expected sha256 {DIGEST}, found "):
        read(path, content("bz2"))
    with pytest.raises(UserError, match=rf"expected {len(TEXT) + 1} bytes, found {len(TEXT)}"):
        read(path, content("bz2", bytes=len(TEXT) + 1))
    with pytest.raises(UserError, match=r"expected 1000 bytes, found more than 1000"):
        read(path, content("bz2", bytes=1000))
    with pytest.raises(UserError, match="has no member other"):
        read(pack(tmp_path / "zip", "zip"), content("zip", member="other"))
    with pytest.raises(UserError, match="cannot be opened"):
        read(tmp_path / "absent", content("none"))
