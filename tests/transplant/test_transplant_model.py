from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
from transplant_models import make_llama, stirred

from overtone.errors import UserError
from overtone.transplant import BlockOptions, HarmonicCache, HarmonicLlamaConfig, transplant
from overtone.transplant.model import HarmonicLlamaForCausalLM


def test_all_but_the_blocks_is_the_base(llama) -> None:
    model = transplant(llama, BlockOptions(d_state=8), 1)
    kept = {name: weight for name, weight in llama.state_dict().items() if ".self_attn." not in name}
    for name, weight in kept.items():
        assert torch.equal(model.state_dict()[name], weight), name
    assert not any(name.endswith(("q_proj.weight", "k_proj.weight")) for name in model.state_dict())
    assert torch.equal(model.blocks[0].values.weight, llama.model.layers[0].self_attn.v_proj.weight)


def test_the_seed_decides_the_start_values(llama) -> None:
    one, same, other = (transplant(llama, BlockOptions(d_state=8), seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["harmonic", "leaky"])
def test_saved_and_loaded_it_is_the_same_model(tmp_path, tied: bool, kind: str) -> None:
    model = stirred(transplant(make_llama(tied=tied), BlockOptions(kind=kind, d_state=8, spread=3.0), 1))
    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert type(loaded) is HarmonicLlamaForCausalLM
    assert type(loaded.blocks[0]) is type(model.blocks[0])
    assert loaded.config.block == model.config.block
    assert (loaded.lm_head.weight is loaded.model.embed_tokens.weight) == tied
    ids = torch.randint(0, 61, (2, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(loaded(ids, use_cache=False).logits, model(ids, use_cache=False).logits)
        trunk = AutoModel.from_pretrained(tmp_path)(ids, use_cache=False).last_hidden_state
        assert torch.equal(trunk, model.model(ids, use_cache=False).last_hidden_state)
        assert AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)(ids).logits.dtype == torch.bfloat16
    assert isinstance(AutoConfig.from_pretrained(tmp_path), HarmonicLlamaConfig)


def test_import_overtone_is_enough_for_the_auto_classes(tmp_path, student) -> None:
    student.save_pretrained(tmp_path)
    code = ("import overtone; from transformers import AutoModelForCausalLM as A; "
            f"print(type(A.from_pretrained({str(tmp_path)!r})).__name__)")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "HarmonicLlamaForCausalLM"


def test_a_model_made_from_a_config_has_the_start_values_of_the_blocks() -> None:
    config = HarmonicLlamaConfig(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                 num_key_value_heads=2, block={"d_state": 8})
    block = AutoModelForCausalLM.from_config(config).blocks[1]
    assert float(block.gate_up.weight.detach().abs().max()) == 0
    assert [round(float(level[0]), 2) for level in block.time_constants()] == [1.0, 8.0, 32.0]
    assert config.block["timescales"] == [4.0, 32.0, 128.0]


def test_generation_goes_on_from_the_state_and_its_memory_does_not_grow(student) -> None:
    ids = torch.randint(0, 61, (2, 6), generator=torch.Generator().manual_seed(0))
    sizes = []
    for new in (2, 40):
        cache = HarmonicCache(2)
        out = student.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False, cache=cache)
        sizes.append(cache.nbytes)
    assert sizes[0] == sizes[1] == 2 * 2 * 32 * 4  # layers, sequences, channels, float32
    written = ids
    with torch.no_grad():
        for _ in range(40):
            written = torch.cat([written, student(written, use_cache=False).logits[:, -1:].argmax(-1)], 1)
    assert torch.equal(out, written)


def test_generation_makes_its_own_cache_and_runs_past_the_context(student) -> None:
    ids = torch.randint(0, 61, (1, 30), generator=torch.Generator().manual_seed(1))
    out = student.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False, return_dict_in_generate=True)
    cache = out.cache if hasattr(out, "cache") else out.past_key_values
    assert isinstance(cache, HarmonicCache)
    assert cache.get_seq_length() == 49
    assert student.config.max_position_embeddings == 32


def test_left_padding_does_not_change_what_is_written(student) -> None:
    generator = torch.Generator().manual_seed(2)
    long, short = torch.randint(0, 61, (1, 9), generator=generator), torch.randint(0, 61, (1, 4), generator=generator)
    batch = torch.cat([long, torch.cat([torch.zeros(1, 5, dtype=torch.long), short], 1)])
    mask = torch.ones_like(batch)
    mask[1, :5] = 0
    out = student.generate(batch, attention_mask=mask, max_new_tokens=12, do_sample=False, pad_token_id=0)
    alone = student.generate(short, attention_mask=torch.ones_like(short), max_new_tokens=12, do_sample=False)
    assert torch.equal(out[1, 9:], alone[0, 4:])


def test_beams_reorder_the_state(student) -> None:
    ids = torch.randint(0, 61, (1, 5), generator=torch.Generator().manual_seed(3))
    options = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 8, "num_beams": 3, "do_sample": False}
    with_state, without = student.generate(ids, **options), student.generate(ids, use_cache=False, **options)
    assert torch.equal(with_state, without)


def test_decoding_that_takes_tokens_back_is_refused(student, llama) -> None:
    ids = torch.randint(0, 61, (1, 5), generator=torch.Generator().manual_seed(4))
    with pytest.raises(ValueError, match="stateful"):
        student.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=4, assistant_model=llama)


def test_the_cache_follows_the_batch(student) -> None:
    cache = HarmonicCache(2)
    ids = torch.randint(0, 61, (3, 5), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        student(ids, cache=cache)
    before = cache.layers[0].state
    cache.reorder_cache(torch.tensor([2, 2, 0]))
    assert torch.equal(cache.layers[0].state, before[[2, 2, 0]])
    cache.batch_repeat_interleave(2)
    cache.batch_select_indices(torch.tensor([0, 5]))
    assert torch.equal(cache.layers[0].state, before[[2, 0]])
    cache.reset()
    assert cache.nbytes == 0
    assert cache.get_seq_length() == 0
    assert not cache.is_croppable


def test_an_attention_mask_of_four_axes_is_an_error(student) -> None:
    with pytest.raises(UserError, match="2 \\(batch, tokens\\)"):
        student(torch.zeros(1, 3, dtype=torch.long), attention_mask=torch.ones(1, 1, 3, 3))


def test_labels_give_the_loss_of_the_next_token(student) -> None:
    ids = torch.randint(0, 61, (2, 12), generator=torch.Generator().manual_seed(6))
    with torch.no_grad():
        out = student(ids, labels=ids, use_cache=False)
    expected = torch.nn.functional.cross_entropy(out.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    assert math.isclose(float(out.loss), float(expected), rel_tol=1e-5)
