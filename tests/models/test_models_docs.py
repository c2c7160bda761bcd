"""The documents say what the code does: the table of docs/models.md, the code of docs/add-an-architecture.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from overtone.models import build_model, flops_per_token, parameter_counts

DOCS = Path(__file__).resolve().parents[2] / "docs"
ROWS = [("harmonic", {}), ("transformer", {}), ("llama", {}), ("mamba", {"layers": 5}), ("resonator", {})]


def table() -> str:
    """The table of docs/models.md: V = 50257, d = 256, batch 1, float32."""
    lines = ["| architecture | parameters | of which body | state bytes at 1K | at 32K | forward FLOPs a token at 1K | at 32K |",
             "|---|---|---|---|---|---|---|"]
    for name, options in ROWS:
        with torch.device("meta"):
            model = build_model(name, vocab_size=50257, hidden=256, **options)
            states = [model.init_state(1, max_length=length).nbytes for length in (1024, 32768)]
        counts = parameter_counts(model)
        flops = [flops_per_token(model, length) for length in (1024, 32768)]
        label = f"`{name}`" + "".join(f", {value} {key}" for key, value in options.items())
        lines.append(f"| {label} | {counts['total']:,} | {counts['body']:,} | {states[0]:,} | {states[1]:,} | "
                     f"{flops[0] / 1e6:.2f} M | {flops[1] / 1e6:.2f} M |")
    return "\n".join(lines)


def test_the_table_of_models_is_what_the_code_counts() -> None:
    page = (DOCS / "models.md").read_text(encoding="utf-8")
    assert table() in page, f"docs/models.md: the table has changed; it should read\n{table()}"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)


PROPERTIES = '''
import torch, tempfile, json, sys
import overtone
from overtone.models import *
model = build_model("average", vocab_size=37, hidden=16, seed=0, tau=5.0).double()
ids = torch.randint(0, 37, (2, 40), generator=torch.Generator().manual_seed(0))
with torch.no_grad():
    whole = model(ids)
    state, steps = model.init_state(2), []
    for column in ids.unbind(1):
        logits, state = model.step(column, state)
        steps.append(logits)
    assert (whole - torch.stack(steps, 1)).abs().max() < 1e-10  # parallel = recurrent
    changed = ids.clone(); changed[:, 20:] = (changed[:, 20:] + 1) % 37
    assert torch.equal(model(changed)[:, :20], whole[:, :20])  # causal
from transformers import AutoModelForCausalLM
with tempfile.TemporaryDirectory() as folder:
    save_checkpoint(model.float(), folder)
    face = AutoModelForCausalLM.from_pretrained(folder)
    text = face.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=5, do_sample=False, pad_token_id=0)
    assert torch.equal(text[:, 40:], torch.stack(list(generate(model, ids, 5)), 1))
class Twin(type(model)):
    name = "twin"
register(Twin)  # what a notebook does instead of the entry point
from transformers import AutoConfig
assert AutoConfig.for_model("overtone_twin").architecture == "twin"
print(json.dumps({"names": architecture_names(), "total": parameter_counts(model)["total"],
                  "matched": matched_dimensions("average", reference="harmonic", vocab_size=37, hidden=16, options={})[1]}))
'''


def test_the_page_on_adding_an_architecture_works_as_printed(tmp_path: Path) -> None:
    (code,), (project,) = blocks("add-an-architecture.md", "python"), blocks("add-an-architecture.md", "toml")
    assert code.count("\n") <= 40
    import tomllib

    declared = tomllib.loads(project)["project"]["entry-points"]["overtone.architectures"]
    information = tmp_path / "overtone_average-1.0.dist-info"
    information.mkdir()
    (tmp_path / "overtone_average.py").write_text(code)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: overtone-average\nVersion: 1.0\n")
    entries = "\n".join(f"{name} = {value}" for name, value in declared.items())
    (information / "entry_points.txt").write_text(f"[overtone.architectures]\n{entries}\n")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROPERTIES}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"average"' in done.stdout
    assert f'"total": {2 * 37 * 16 + 16 * 16 + 16}' in done.stdout


def test_the_pages_study_lines_are_a_valid_part_of_a_study() -> None:
    yaml = pytest.importorskip("yaml")
    from overtone.study.schema import schema

    (lines,) = blocks("add-an-architecture.md", "yaml")
    import jsonschema

    whole = schema("study")
    part = {"$defs": whole.get("$defs", {}), **whole["properties"]["architectures"]}
    jsonschema.validate(yaml.safe_load(lines)["architectures"], part)
