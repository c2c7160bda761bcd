"""The Triton kernels without a GPU: run in the interpreter, compiled for a GPU that is not here."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

CASES = Path(__file__).with_name("interpreted_linear_scan.py")
pytestmark = pytest.mark.skipif(not find_spec("triton"), reason="triton is not installed")


def test_kernels_in_the_interpreter():
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:xdist", str(CASES)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert int(re.search(r"(\d+) passed", done.stdout).group(1)) >= 30
    assert "skipped" not in done.stdout


KERNELS = {
    "scan_reduce_kernel": {"REVERSE": True, "BLOCK": 64, "ROWS": 4},
    "scan_carry_kernel": {"HAS_START": True, "REVERSE": True, "BLOCK": 4, "CHUNKS": 64},
    "scan_fwd_kernel": {"HAS_ENTERING": True, "BLOCK": 64, "ROWS": 4},
    "scan_bwd_kernel": {"HAS_INITIAL": True, "HAS_ENTERING": True, "BLOCK": 64, "ROWS": 4},
}
DATA = ("a", "b", "x", "h", "dh", "da", "db")
STATES = ("initial", "final", "dinitial", "entering", "products", "states", "start")


@pytest.mark.skipif(not find_spec("triton.backends.nvidia"), reason="this triton has no NVIDIA backend")
@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="interpreted kernels are not compiled")
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compile_for_a_gpu_with_offsets_of_64_bits_and_wide_loads(name):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from overtone.ops.linear_scan import triton as kernels

    kernel = getattr(kernels, name)
    kernel = getattr(kernel, "fn", kernel) if hasattr(kernel, "configs") else kernel
    constants, signature, aligned = KERNELS[name], {}, {}
    for index, argument in enumerate(kernel.arg_names):
        if argument in constants:
            signature[argument] = "constexpr"
            continue
        pointer = "*bf16" if argument in DATA else "*fp32" if argument in STATES else "i32"
        signature[argument] = pointer
        if argument not in ("length", "chunks", "chunk_length"):
            aligned[(index,)] = [["tt.divisibility", 16]]  # as at dim = 256
    source = ASTSource(kernel, signature=signature, constexprs=constants, attrs=aligned)
    assembly = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1}).asm
    offsets = re.findall(r"tt\.addptr .* : .*?, (?:tensor<[\dx]*)?(i\d+)", assembly["ttir"])
    assert set(offsets) == {"i64"}
    if name != "scan_carry_kernel":  # two bfloat16 columns a lane travel together
        assert re.search(r"ld\.global[.\w]*\.b32", assembly["ptx"])
        assert not re.search(r"ld\.global[.\w]*\.b16", assembly["ptx"])
