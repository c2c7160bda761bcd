"""`import overtone` is cheap, and transformers knows the architectures whichever of the two is imported first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from model_variants import small_model

from overtone.models import save_checkpoint


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_overtone_imports_neither_torch_nor_transformers() -> None:
    heavy = "{'torch', 'transformers', 'numba'} & set(sys.modules)"
    assert run(f"import overtone, overtone.cli, overtone.models, overtone.study, sys; print({heavy})") == "set()"


TYPES = "*(AutoConfig.for_model(name).model_type for name in ('harmonic_llama', 'llama'))"
LOAD = f"AutoModelForCausalLM.from_pretrained({{folder!r}}).model.name, {TYPES}"
ORDERS = {
    "overtone first": "import overtone; from transformers import AutoModelForCausalLM, AutoConfig",
    "transformers first": "import transformers.models.llama.modeling_llama; from transformers import AutoConfig; import overtone; "
                          "from transformers import AutoModelForCausalLM",
}


@pytest.mark.parametrize("order", ORDERS)
def test_auto_classes_know_the_architectures(order: str, tmp_path: Path) -> None:
    save_checkpoint(small_model("resonator", {"layers": 1}), tmp_path)
    assert run(f"{ORDERS[order]}\nprint(*({LOAD.format(folder=str(tmp_path))}))") == "resonator harmonic_llama llama"
