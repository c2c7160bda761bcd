"""The Hugging Face face: round trips, generate() with the state as cache, padding, safe loading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from model_variants import identify, random_ids, small_model
from transformers import AutoConfig, AutoModelForCausalLM

from overtone.models import generate, load_checkpoint, save_checkpoint
from overtone.models.hf import OvertoneForCausalLM
from overtone.models.hf_cache import StateCache

FACED: list[tuple[str, dict[str, Any]]] = [
    ("harmonic", {}), ("harmonic", {"stride": 3, "tied": True}), ("transformer", {}), ("llama", {"heads": 4, "kv_heads": 2}),
    ("mamba", {"layers": 2}), ("resonator", {"layers": 2}), ("resonator", {"layers": 2, "frozen_kernels": True}),
]
every = pytest.mark.parametrize("variant", FACED, ids=identify)


def greedy(model: Any, ids: torch.Tensor, mask: torch.Tensor | None = None, new: int = 12, **options: Any) -> torch.Tensor:
    mask = torch.ones_like(ids) if mask is None else mask
    text = model.generate(ids, attention_mask=mask, max_new_tokens=new, do_sample=False, pad_token_id=0, **options)
    return text[:, ids.shape[1] :]


@every
def test_save_and_load_both_ways(variant: tuple[str, dict], tmp_path: Path) -> None:
    ours, ids = small_model(*variant), random_ids(2, 30)
    save_checkpoint(ours, tmp_path / "ours")
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "ours")
    assert type(theirs).__name__ == f"Overtone{variant[0].capitalize()}ForCausalLM"
    theirs.save_pretrained(tmp_path / "theirs")
    with torch.no_grad():
        assert torch.equal(theirs(ids).logits, ours(ids))
        again = load_checkpoint(tmp_path / "theirs")
        assert torch.equal(again(ids), ours(ids))
        assert torch.equal(AutoModelForCausalLM.from_pretrained(tmp_path / "theirs")(ids).logits, ours(ids))
    assert again.config.to_dict() == ours.config.to_dict()
    assert sorted(path.suffix for path in (tmp_path / "ours").iterdir()) == [".json", ".safetensors"]


@every
def test_generate_is_our_generation(variant: tuple[str, dict]) -> None:
    ours, ids = small_model(*variant), random_ids(2, 17)
    expected = torch.stack(list(generate(ours, ids, 12)), dim=1)
    wrapped = OvertoneForCausalLM.wrap(ours).eval()
    assert torch.equal(greedy(wrapped, ids), expected)
    assert torch.equal(greedy(wrapped, ids, use_cache=False), expected)
    assert torch.equal(greedy(wrapped, ids, prefill_chunk_size=5), expected)


@every
def test_left_padding_is_an_identity_step(variant: tuple[str, dict]) -> None:
    wrapped = OvertoneForCausalLM.wrap(small_model(*variant)).eval()
    prompts = [random_ids(1, length, seed=length) for length in (17, 6, 11)]
    batch, mask = random_ids(3, 17, seed=9), torch.zeros(3, 17, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        batch[row, 17 - prompt.shape[1] :], mask[row, 17 - prompt.shape[1] :] = prompt[0], 1
    together = greedy(wrapped, batch, mask)
    for row, prompt in enumerate(prompts):
        assert torch.equal(together[row : row + 1], greedy(wrapped, prompt))
        logits = wrapped(batch, attention_mask=mask).logits[row, 17 - prompt.shape[1] :]
        torch.testing.assert_close(logits, wrapped(prompt).logits[0], rtol=1e-4, atol=1e-5)


@every
def test_right_padding_leaves_the_state_alone(variant: tuple[str, dict]) -> None:
    wrapped = OvertoneForCausalLM.wrap(small_model(*variant)).eval()
    ids, mask = random_ids(2, 10), torch.ones(2, 10, dtype=torch.long)
    mask[1, 6:] = 0
    with torch.no_grad():
        padded = wrapped(ids, attention_mask=mask, use_cache=True)
        alone = wrapped(ids[1:, :6], use_cache=True)
        torch.testing.assert_close(padded.logits[1:, :6], alone.logits, rtol=1e-4, atol=1e-5)
        more = random_ids(2, 1, seed=5)
        name = "cache" if "cache" in padded else "past_key_values"
        after = wrapped(more, attention_mask=torch.cat([mask, torch.ones(2, 1, dtype=torch.long)], dim=1), **{name: padded[name]})
        torch.testing.assert_close(after.logits[1:], wrapped(more[1:], **{name: alone[name]}).logits, rtol=1e-4, atol=1e-5)


@every
def test_beam_search_reorders_the_state(variant: tuple[str, dict]) -> None:
    wrapped, ids = OvertoneForCausalLM.wrap(small_model(*variant)).eval(), random_ids(2, 9)
    assert torch.equal(greedy(wrapped, ids, num_beams=3), greedy(wrapped, ids, num_beams=3, use_cache=False))
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    padded = greedy(wrapped, ids, mask, num_beams=3)
    assert torch.equal(padded[:1], greedy(wrapped, ids[:1], num_beams=3))
    assert torch.equal(padded[1:], greedy(wrapped, ids[1:, 4:], num_beams=3))


def test_sampling_follows_the_seed_and_returns_several() -> None:
    wrapped, ids = OvertoneForCausalLM.wrap(small_model("harmonic", {})).eval(), random_ids(2, 9)

    def sampled(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return wrapped.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=True, num_return_sequences=3,
                                pad_token_id=0)

    assert sampled(1).shape == (6, 17)
    assert torch.equal(sampled(1), sampled(1))
    assert not torch.equal(sampled(1), sampled(2))


def test_a_conversation_goes_on_from_its_cache() -> None:
    for variant in FACED:
        wrapped, ids = OvertoneForCausalLM.wrap(small_model(*variant)).eval(), random_ids(1, 20)
        cache = StateCache()
        name = "cache" if "cache" in wrapped(ids[:, :2], use_cache=True) else "past_key_values"
        wrapped(ids[:, :8], use_cache=True, **{name: cache})
        assert cache.get_seq_length() == 8
        assert torch.equal(greedy(wrapped, ids, **{name: cache}), greedy(wrapped, ids)), identify(variant)


@pytest.mark.parametrize("name", ["harmonic", "mamba", "resonator"])
def test_the_cache_of_a_recurrent_model_does_not_grow(name: str) -> None:
    wrapped = OvertoneForCausalLM.wrap(small_model(name, {})).eval()
    short, long = (wrapped(random_ids(1, length), use_cache=True) for length in (5, 200))
    key = "cache" if "cache" in short else "past_key_values"
    assert short[key].nbytes == long[key].nbytes == wrapped.model.init_state(1).nbytes


def test_labels_give_the_shifted_loss_and_ignore_padding() -> None:
    ours, ids = small_model("harmonic", {}), random_ids(2, 12)
    wrapped = OvertoneForCausalLM.wrap(ours)
    torch.testing.assert_close(wrapped(ids, labels=ids).loss, ours.loss(ids[:, :-1], ids[:, 1:]))
    labels = ids.clone()
    labels[:, 6:] = -100
    torch.testing.assert_close(wrapped(ids, labels=labels).loss, ours.loss(ids[:, :5], ids[:, 1:6]))


def test_what_is_not_offered_is_refused() -> None:
    wrapped, ids = OvertoneForCausalLM.wrap(small_model("harmonic", {})).eval(), random_ids(1, 6)
    with pytest.raises(ValueError, match="padding between its tokens"):
        wrapped(ids, attention_mask=torch.tensor([[1, 1, 0, 1, 1, 1]]))
    with pytest.raises(ValueError, match="not offered: inputs_embeds"):
        wrapped(inputs_embeds=torch.zeros(1, 6, 16))
    with pytest.raises(ValueError, match="not offered"):
        wrapped(ids, output_hidden_states=True)
    with pytest.raises(ValueError, match="not supported with stateful models"):
        greedy(wrapped, ids, assistant_model=OvertoneForCausalLM.wrap(small_model("harmonic", {})).eval())
    with pytest.raises(ValueError, match="cannot be cropped"):
        StateCache().crop(1)


def test_only_safetensors_are_loaded(tmp_path: Path) -> None:
    save_checkpoint(small_model("harmonic", {}), tmp_path)
    weights = torch.load  # the pickle below would be readable: refusing it is a decision, not an accident
    torch.save({"model." + key: value for key, value in load_checkpoint(tmp_path).state_dict().items()}, tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    assert weights(tmp_path / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        AutoModelForCausalLM.from_pretrained(tmp_path)


def test_a_file_that_lacks_weights_is_refused(tmp_path: Path) -> None:
    save_checkpoint(small_model("harmonic", {}), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["options"]["levels"], config["options"]["timescales"], config["options"]["stride"] = 4, None, 1
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises((ValueError, RuntimeError), match="weights do not fit"):
        AutoModelForCausalLM.from_pretrained(tmp_path)


def test_a_new_model_from_a_configuration_keeps_our_initial_weights() -> None:
    config = AutoConfig.for_model("overtone_harmonic", vocab_size=37, hidden_size=32, options={"spread": 1.5})
    model = AutoModelForCausalLM.from_config(config)
    tau = model.model.diagnostics()["tau"]["3"]
    assert tau[len(tau) // 2] == pytest.approx(128, rel=0.05)
    assert config.options["stride"] == [1, 1, 1]  # defaults are written out


def test_bfloat16_weights_load_as_they_were_saved(tmp_path: Path) -> None:
    save_checkpoint(small_model("mamba", {"layers": 1}, dtype=torch.bfloat16), tmp_path)
    assert AutoModelForCausalLM.from_pretrained(tmp_path).dtype == torch.bfloat16
    assert load_checkpoint(tmp_path).embedding.weight.dtype == torch.bfloat16
