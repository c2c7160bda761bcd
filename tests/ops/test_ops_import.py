"""What importing and first calling the operators costs: no triton, no compiler; odd installations still work. Each in a new process."""

import os
import subprocess
import sys
import textwrap

import pytest


def python(code, **environment):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **environment})
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout, done.stderr


def test_a_scan_on_the_cpu_imports_neither_triton_nor_dynamo():
    python("""
        import sys, torch
        import overtone.ops
        assert not {"numba", "triton", "torch._dynamo"} & set(sys.modules)
        a = torch.rand(1, 4, 3, requires_grad=True)
        overtone.ops.linear_scan(a, a).sum().backward()
        assert "numba" in sys.modules
        assert not {"triton", "torch._dynamo"} & set(sys.modules)
    """)


def test_works_without_numba_and_triton_and_says_so():
    _, said = python("""
        import sys
        import torch
        sys.modules["numba"] = sys.modules["triton"] = None  # as if not installed
        import importlib.util
        find = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name in ("numba", "triton") else find(name, *rest)
        from overtone.errors import UserError
        from overtone.ops import linear_scan
        a = torch.rand(1, 4, 3)
        assert torch.equal(linear_scan(a, a), linear_scan(a, a, backend="reference"))
        for backend in ("cpu", "triton"):
            try:
                linear_scan(a, a, backend=backend)
                raise SystemExit(backend + " ran")
            except UserError as error:
                assert "is not installed" in str(error), error
    """)
    assert "falls back to the slow reference loop: numba is not installed" in said


def test_a_cache_that_cannot_be_written_does_not_stop_the_scan(tmp_path):
    python("""
        import errno, torch
        import numba.core.caching as caching
        def full(*arguments, **options):
            raise OSError(errno.ENOSPC, "No space left on device")
        def nowhere(*arguments, **options):
            raise RuntimeError("cannot cache function: no locator available")
        from overtone.ops import linear_scan
        from overtone.ops.linear_scan import cpu
        a = torch.rand(1, 4, 3)
        for place, name, trouble in ((caching.IndexDataCacheFile, "save", full), (caching.FunctionCache, "__init__", nowhere)):
            setattr(place, name, trouble)
            cpu._compiled.cache_clear()
            torch.testing.assert_close(linear_scan(a, a), linear_scan(a, a, backend="reference"))
            assert not cpu._compiled()[0].stats.cache_hits
    """, NUMBA_CACHE_DIR=str(tmp_path))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_its_own_threads():
    python("""
        import os, signal, torch
        from overtone.ops import linear_scan
        torch.set_num_threads(2)
        a = torch.rand(2, 400, 256)
        expected = linear_scan(a, a)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os._exit(0 if torch.equal(linear_scan(a, a), expected) else 1)
        assert os.waitpid(child, 0)[1] == 0
    """)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_kept_memory_is_used_again():
    said, _ = python("""
        import resource, torch
        from overtone.ops.allocator import keep_freed_memory
        torch.set_num_threads(1)
        def faults():
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            for _ in range(4):
                torch.ones(12 << 20)  # 48 MB: above the 32 MB that glibc returns at once
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        fresh = faults()
        if keep_freed_memory():
            for _ in range(4):  # the heap settles after a few blocks
                faults()
            print(fresh, faults())
    """)
    if said:  # musl has no such knob
        fresh, kept = map(int, said.split())
        assert kept < fresh / 10
