from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transplant_models import make_llama, stirred

from overtone.errors import UserError
from overtone.transplant import BlockOptions, HarmonicBlock, HarmonicCache, HarmonicLlamaConfig, transplant
from overtone.transplant.block import deal, decay_bias


def reference(block: HarmonicBlock, x: torch.Tensor) -> torch.Tensor:
    """The block's equations, a token at a time in float64, heads looked up one by one."""
    get = {name: weight.detach().double() for name, weight in block.named_parameters()}
    x = x.double()
    batch, length, _ = x.shape
    head_dim, part = block.head_dim, block.part
    values = x @ get["values.weight"].T
    decay = torch.sigmoid(x @ get["decay_down.weight"].T @ get["decay_up.weight"].T + get["decay_up.bias"])
    gate = 2 * torch.sigmoid(x @ get["gate_down.weight"].T @ get["gate_up.weight"].T + get["gate_up.bias"])
    outs, start, outputs = [], 0, []
    for level in range(3):
        width = block.widths[level]
        drive = torch.zeros(batch, length, width, dtype=torch.float64)
        for slot, index in enumerate(block.parts[level]):
            head, rest = index * part // head_dim, index * part % head_dim
            channel = head // block.group * head_dim + rest
            drive[..., slot * part : (slot + 1) * part] = values[..., channel : channel + part]
        if level:
            told = outputs[-1] @ get[f"predict.{level - 1}.weight"].T
            heard = x @ get["error_down.weight"].T if level == 1 else outputs[-2] @ get["predict.0.weight"].T
            error = heard - told
            error = error / torch.sqrt(error.square().mean(-1, keepdim=True) + 1e-6)
            drive = drive + error @ get[f"listen.{level - 1}.weight"].T
        state = torch.zeros(batch, width, dtype=torch.float64)
        steps = []
        for t in range(length):
            a = decay[:, t, start : start + width]
            state = a * state + (1 - a) * drive[:, t]
            steps.append(gate[:, t, start : start + width] * state)
        outputs.append(torch.stack(steps, 1))
        outs.append(outputs[-1])
        start += width
    return torch.cat(outs, -1) @ get["out.weight"].T


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 2), (4, 4), (3, 1), (2, 1), (1, 1)])
def test_block_is_its_equations(heads: int, kv_heads: int) -> None:
    hidden = 24 if heads == 3 else 32
    model = stirred(transplant(make_llama(hidden=hidden, heads=heads, kv_heads=kv_heads), BlockOptions(d_state=8), 1)).double()
    x = torch.randn(2, 19, hidden, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y, weights = model.blocks[0](x)
    assert weights is None
    torch.testing.assert_close(y, reference(model.blocks[0], x), rtol=1e-9, atol=1e-10)


def test_parameters_are_within_5_percent_of_the_published_block() -> None:
    config = HarmonicLlamaConfig(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
                                 num_key_value_heads=4, block={"d_state": 128})
    with torch.device("meta"):
        block = HarmonicBlock(config, 0)
    count = sum(weight.numel() for weight in block.parameters())
    assert count == 6_385_664
    assert abs(count / 6.395e6 - 1) < 0.05
    assert abs(22 * count / 140.7e6 - 1) < 0.05


def test_starts_as_the_attention_layer_with_exponential_weights() -> None:
    llama = make_llama()
    attention = llama.model.layers[0].self_attn
    block = transplant(llama, BlockOptions(d_state=8), 1).blocks[0]
    x = torch.randn(1, 11, 32, generator=torch.Generator().manual_seed(0))
    expected = torch.zeros(1, 11, 32)
    taus = torch.cat(block.time_constants())
    for slot, head in enumerate(part for parts in block.parts for part in parts):
        own = slice(head * 8, head * 8 + 8)
        values = attention.v_proj(x)[..., head // 2 * 8 : head // 2 * 8 + 8]
        keep = torch.exp(-1 / taus[slot * 8 : slot * 8 + 8]).float()
        for t in range(11):
            weights = (1 - keep) * keep ** torch.arange(t, -1, -1).unsqueeze(1)  # (t + 1, 8), oldest token first
            expected[:, t] += (weights * values[:, : t + 1]).sum(1) @ attention.o_proj.weight[:, own].T
    torch.testing.assert_close(block(x)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_no_output_moves_when_later_tokens_change(student, dtype: torch.dtype) -> None:
    model = student.to(dtype)
    ids = torch.randint(0, 61, (2, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for cut in (1, 16, 17, 39):
            changed = ids.clone()
            changed[:, cut:] = (changed[:, cut:] + 7) % 61
            before, after = model(ids, use_cache=False).logits, model(changed, use_cache=False).logits
            assert (before[:, :cut] - after[:, :cut]).abs().max() <= (1e-12 if dtype == torch.float64 else 1e-5)
            assert (before[:, cut:] - after[:, cut:]).abs().max() > 0.01


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
@pytest.mark.parametrize("prompt", [1, 7, 23])
def test_steps_agree_with_the_parallel_pass(student, dtype: torch.dtype, tolerance: float, prompt: int) -> None:
    model = student.to(dtype)
    ids = torch.randint(0, 61, (2, 24), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        whole = model(ids, use_cache=False).logits
        cache = HarmonicCache(2)
        pieces = [model(ids[:, :prompt], cache=cache).logits]
        bytes_after_prompt = cache.nbytes
        pieces += [model(ids[:, t : t + 1], cache=cache).logits for t in range(prompt, 24)]
    assert (torch.cat(pieces, 1) - whole).abs().max() <= tolerance * whole.abs().max()
    assert cache.nbytes == bytes_after_prompt
    assert cache.get_seq_length() == 24


def test_a_chunked_prompt_gives_the_state_of_the_whole_one(student) -> None:
    ids = torch.randint(0, 61, (1, 30), generator=torch.Generator().manual_seed(2))
    whole, chunked = HarmonicCache(2), HarmonicCache(2)
    with torch.no_grad():
        student(ids, cache=whole)
        for part in ids.split(11, dim=1):
            student(part, cache=chunked)
    for one, other in zip(whole.layers, chunked.layers, strict=True):
        torch.testing.assert_close(one.state, other.state, rtol=1e-4, atol=1e-5)


def test_the_leaky_control_sees_3_and_15_tokens_ahead(leaky) -> None:
    model = leaky.double()
    ids = torch.randint(0, 61, (1, 48), generator=torch.Generator().manual_seed(0))
    moved = []
    with torch.no_grad():
        before = model(ids, use_cache=False).logits
        for cut in range(17, 32):
            changed = ids.clone()
            changed[:, cut:] = (changed[:, cut:] + 7) % 61
            late = (model(changed, use_cache=False).logits[:, :cut] - before[:, :cut]).abs().amax(-1)[0] > 1e-9
            moved.append(int(late.nonzero()[0]) if late.any() else cut)
        changed = ids.clone()
        changed[:, 16:] = (changed[:, 16:] + 7) % 61
        border = (model(changed, use_cache=False).logits[:, :16] - before[:, :16]).abs().max()
    assert moved == [16] * 15  # the whole group of 16 tokens learns what any of them is
    assert border < 1e-9  # and nothing crosses a group's border


def test_padding_is_an_identity_step(student) -> None:
    ids = torch.randint(0, 61, (2, 9), generator=torch.Generator().manual_seed(4))
    junk = torch.randint(0, 61, (2, 5), generator=torch.Generator().manual_seed(5))
    left = torch.cat([junk, ids], 1), torch.tensor([[0] * 5 + [1] * 9] * 2)
    right = torch.cat([ids, junk], 1), torch.tensor([[1] * 9 + [0] * 5] * 2)
    with torch.no_grad():
        plain, cache = student(ids, use_cache=False).logits, HarmonicCache(2)
        student(ids, cache=cache)
        for (padded, mask), kept in ((left, slice(5, None)), (right, slice(0, 9))):
            other = HarmonicCache(2)
            logits = student(padded, attention_mask=mask, cache=other).logits
            torch.testing.assert_close(logits[:, kept], plain, rtol=1e-4, atol=1e-5)
            for one, two in zip(cache.layers, other.layers, strict=True):
                torch.testing.assert_close(one.state, two.state, rtol=1e-4, atol=1e-5)


def test_both_names_of_the_cache_are_taken_and_other_caches_refused(student) -> None:
    from transformers import DynamicCache

    x = torch.randn(1, 4, 32, generator=torch.Generator().manual_seed(0))
    one, two = HarmonicCache(2), HarmonicCache(2)
    student.blocks[1](x, cache=one)
    student.blocks[1](hidden_states=x, past_key_values=two)
    assert torch.equal(one.layers[1].state, two.layers[1].state)
    assert one.layers[0].state is None
    with pytest.raises(UserError, match="HarmonicCache"):
        student.blocks[0](x, cache=DynamicCache())


@given(heads=st.integers(1, 40), head_dim=st.sampled_from([4, 8, 24, 32, 64]))
def test_deal_gives_every_channel_one_level(heads: int, head_dim: int) -> None:
    cut, parts = deal(heads, head_dim)
    assert head_dim % cut == 0
    assert sorted(part for level in parts for part in level) == list(range(heads * cut))
    assert all(parts)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert cut == 1 or heads < 3


@settings(deadline=None)
@given(centre=st.floats(2, 200), spread=st.floats(1, 8), width=st.integers(1, 50))
def test_gate_biases_hold_the_time_constants(centre: float, spread: float, width: int) -> None:
    tau = -1 / torch.nn.functional.logsigmoid(decay_bias(centre, spread, width).double())
    assert tau.min() >= centre / spread * 0.99
    assert tau.max() <= centre * spread * 1.01
    assert tau[0] == pytest.approx(centre / spread, rel=1e-3)
    assert len(tau) == width


def test_wrong_options_name_what_is_wrong() -> None:
    with pytest.raises(UserError, match="leaking"):
        BlockOptions.from_dict({"kind": "leaking"})
    with pytest.raises(UserError, match="3 positive"):
        BlockOptions.from_dict({"timescales": [4, 32]})
    with pytest.raises(UserError, match="3 levels"):
        deal(1, 2)
    options = BlockOptions(d_state=9, spread=2.0)
    assert BlockOptions.from_dict(options.to_dict()) == options


def test_extreme_gates_stay_finite() -> None:
    block = transplant(make_llama(), BlockOptions(d_state=8), 1).blocks[0]
    for value in (-200.0, 200.0):
        with torch.no_grad():
            block.decay_up.bias.fill_(value)
        x = torch.randn(1, 50, 32, generator=torch.Generator().manual_seed(0), requires_grad=True)
        y, _ = block(x)
        y.sum().backward()
        assert math.isfinite(float(y.detach().abs().sum()) + float(x.grad.abs().sum()))
