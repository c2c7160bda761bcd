"""Decoding: every way gives the same tokens, and the rows say what was measured."""

import json

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from overtone.benchmarks import decode
from overtone.benchmarks.candidates import candidates
from overtone.benchmarks.decode import CHECKED, TOLERANCE, Settings, _decoder, difference, matrix_products, measure, table
from overtone.benchmarks.decoders import (
    CompiledDecoder,
    GraphDecoder,
    GrowingCache,
    StepDecoder,
    TracedDecoder,
    attention_step,
    copied,
    eager_attention,
    read_prompt,
)
from overtone.cli import main
from overtone.models import build_model

V = 50
NAMES = ["harmonic", "transformer", "llama", "mamba", "resonator"]


def prompted(name, length=20, batch=2, room=32):
    model = build_model(name, vocab_size=V, hidden=32, seed=1).eval()
    ids = torch.randint(V, (batch, length), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        return model, ids, *read_prompt(model, ids, room)


def greedy(model, ids, count):
    """The oracle: the whole sequence through the parallel mode for every token."""
    for _ in range(count):
        ids = torch.cat([ids, model(ids)[:, -1].argmax(-1, keepdim=True)], 1)
    return ids[:, -1]


@pytest.mark.parametrize("name", NAMES)
def test_steps_after_a_prompt_choose_the_tokens_of_the_parallel_mode(name):
    model, ids, first, state = prompted(name)
    with torch.inference_mode():
        assert torch.equal(StepDecoder(model, first, state).advance(12), greedy(model, ids, 13))


@pytest.mark.parametrize("name", ["transformer", "llama"])
def test_the_eager_baseline_chooses_the_same_tokens_from_a_cache_that_grows(name):
    model, _, first, state = prompted(name)
    with torch.inference_mode():
        eager = StepDecoder(model, first, GrowingCache.of(state))
        before = eager.state.nbytes
        with eager_attention(model):
            assert all(block.form == "quadratic" for block in model.blocks)
            chosen = eager.advance(10)
        assert all(block.form == "sdpa" for block in model.blocks)
        assert eager.state.nbytes == before * 30 // 20
        assert torch.equal(chosen, StepDecoder(model, first, copied(state)).advance(10))


@pytest.mark.parametrize("name", ["transformer", "llama"])
def test_a_step_at_a_position_on_the_device_is_the_step(name):
    model, _, first, state = prompted(name)
    with torch.inference_mode():
        other, position = copied(state), torch.tensor(state.position)
        for _ in range(6):
            logits, state = model.step(first, state)
            assert torch.allclose(attention_step(model, first, other, position), logits, rtol=1e-4, atol=1e-5)
            position += 1
            first = logits.argmax(-1)


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_a_cuda_graph_chooses_the_same_tokens(name):
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    model = build_model(name, vocab_size=V, hidden=64, seed=1).cuda().eval()
    ids = torch.randint(V, (2, 20), generator=torch.Generator().manual_seed(0)).cuda()
    with torch.inference_mode():
        first, state = read_prompt(model, ids, 32)
        graph = GraphDecoder(model, first, state)
        assert torch.equal(graph.advance(9), StepDecoder(model, first, copied(state)).advance(9))


@pytest.mark.parametrize("way", [TracedDecoder, CompiledDecoder])
@pytest.mark.parametrize("name", NAMES)
def test_a_captured_step_chooses_the_same_tokens_call_after_call(name, way):
    model, ids, first, state = prompted(name)
    with torch.inference_mode():
        captured = way(model, first, state)
        assert torch.equal(captured.advance(5), greedy(model, ids, 6))
        assert torch.equal(captured.advance(7), greedy(model, ids, 13))
        assert captured.state.position == state.position + 12
        assert captured.state.nbytes == state.nbytes


def test_written_out_scores_have_no_compiled_step():
    model = build_model("llama", vocab_size=V, hidden=32, attention="quadratic").eval()
    with pytest.raises(NotImplementedError, match="llama: no compiled step"):
        CompiledDecoder(model, torch.tensor([1]), model.init_state(1))


@pytest.mark.parametrize(("fastest", "second"), [("compiled", "traced"), ("traced", "compiled"), ("step", "step")])
def test_the_fastest_way_that_decodes_the_same_tokens_is_taken(monkeypatch, fastest, second):
    model, _, first, state = prompted("harmonic", batch=1, room=64)
    seconds = dict.fromkeys(("step", "traced", "compiled"), 3.0) | {second: 2.0, fastest: 1.0}
    monkeypatch.setattr(decode, "sample", lambda call, device, repetitions: [seconds[call.func.__self__.path]])
    with torch.inference_mode():
        assert _decoder(model, first, state, SMALL)[0].path == fastest
        for way in (CompiledDecoder, TracedDecoder):
            if way.path == fastest:
                monkeypatch.setattr(way, "advance", lambda decoder, count, advance=way.advance: advance(decoder, count) + 1)
                decoder, refused = _decoder(model, first, state, SMALL)
                assert decoder.path == second
                assert [(item["path"], item["status"]) for item in refused] == [(fastest, "rejected")]


class Twins(StepDecoder):
    """A captured step that rounds otherwise: of two tokens that are as likely it takes the other."""

    path = "traced"

    def advance(self, tokens):
        for _ in range(tokens):
            super().advance(1)
            self.logits[:, 1::2] += 1e-6 * self.logits.abs().amax()
            self.ids = self.logits.argmax(-1)
        return self.ids


def test_a_tie_that_is_rounded_otherwise_is_no_reason_to_drop_a_way(monkeypatch):
    model, _, first, state = prompted("harmonic", room=64)
    with torch.inference_mode():
        model.head_weight[1::2] = model.head_weight[::2]  # every token has a twin, whose embedding is another
        ours, theirs = (way(model, first, copied(state)) for way in (StepDecoder, Twins))
        assert not torch.equal(ours.advance(CHECKED), theirs.advance(CHECKED))
        monkeypatch.setattr(decode, "TracedDecoder", Twins)
        monkeypatch.setattr(decode, "sample", lambda call, device, repetitions: [1.0 + (call.func.__self__.path != "traced")])
        decoder, refused = _decoder(model, first, copied(state), SMALL)
        assert (type(decoder), refused) == (Twins, [])


@pytest.mark.parametrize("wrong", [1e-3, float("nan")])
def test_a_way_that_computes_something_else_is_told_in_the_results(monkeypatch, wrong):
    class Wrong(StepDecoder):
        path = "traced"

        def advance(self, tokens):
            super().advance(tokens)
            self.logits[:, 0] -= wrong * self.logits.abs().amax()
            self.ids = self.logits.argmax(-1)
            return self.ids

    monkeypatch.setattr(decode, "TracedDecoder", Wrong)
    found = measure(SMALL, candidates(("harmonic",), hidden=32, vocab_size=V, match=""))
    assert [(item["path"], item["status"], item["context"], item["batch"]) for item in found["protocol"]["failures"]] == [
        ("traced", "rejected", context, batch) for batch, context in ((1, 32), (1, 128), (2, 32))]
    assert {row["path"] for row in found["rows"]} <= {"step", "compiled"}
    assert json.loads(json.dumps(found, allow_nan=False))["protocol"] == json.loads(json.dumps(found["protocol"]))


class Misread(StepDecoder):
    """A step that reads another token than it was given."""

    def advance(self, tokens):
        self.ids = (self.ids + 1) % V
        return super().advance(tokens)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("name", NAMES)
def test_a_traced_step_agrees_within_the_tolerance_of_its_dtype(name, dtype):
    kind = getattr(torch, dtype)
    model = build_model(name, vocab_size=V, hidden=64, seed=1).to(kind).eval()
    ids = torch.randint(V, (2, 20), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        first, state = read_prompt(model, ids, 32)
        apart = difference(TracedDecoder(model, first, state), StepDecoder(model, first, copied(state)), 8)
        assert apart <= TOLERANCE[dtype]
        assert difference(Misread(model, first, copied(state)), StepDecoder(model, first, copied(state)), 8) > TOLERANCE[dtype]


def test_a_step_that_looks_at_its_position_is_not_captured():
    model = build_model("harmonic", vocab_size=V, hidden=32, seed=1, stride=(1, 2, 4)).eval()
    ids = torch.randint(V, (1, 9), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        first, state = read_prompt(model, ids, 8)
        with pytest.raises(NotImplementedError, match="depends on the position"):
            TracedDecoder(model, first, state)
        decoder, refused = _decoder(model, first, state, SMALL)
        assert decoder.path == "step"
        assert [(item["path"], item["status"]) for item in refused] == [("compiled", "unavailable"), ("traced", "unavailable")]
        assert "depends on the position" in refused[1]["message"]
        assert torch.equal(decoder.advance(8), greedy(model, ids, 9))


def test_the_matrix_products_are_those_of_a_step():
    """Every weight of a matrix is used once: 2 FLOPs each, as the model itself counts them."""
    for name in NAMES:
        model = build_model(name, vocab_size=V, hidden=32, seed=1)
        with FlopCounterMode(display=False) as counted:
            matrix_products(model, 3, torch.device("cpu"))()
        assert counted.get_total_flops() == 3 * 2 * (model.matrix_weights() + model.head_weight.numel())


SMALL = Settings(hidden=32, vocab_size=V, contexts=(32, 128), batches=(1, 2), context_tokens=128, tokens=2, repetitions=3)


@pytest.fixture(scope="module")
def measured():
    names = ("resonator", "transformer", "harmonic")
    return measure(SMALL, candidates(names, hidden=32, vocab_size=V, match="resonator"))


def test_every_architecture_context_and_variant_has_a_row(measured):
    rows = {(row["architecture"], row["variant"], row["context"], row["batch"]): row for row in measured["rows"]}
    places = [(32, 1), (128, 1), (32, 2)]
    assert set(rows) == {
        (name, variant, *place)
        for place in places
        for name, variant in (("resonator", "static"), ("harmonic", "static"), ("transformer", "static"), ("transformer", "eager"))
    }
    assert measured["protocol"]["left_out"] == [{"batch": 2, "context": 128}]
    for row in rows.values():
        assert 0 < row["ms_per_token"]["q25"] <= row["ms_per_token"]["median"] <= row["ms_per_token"]["q75"]
        assert len(row["ms_per_token"]["samples"]) == 3
        assert row["prefill_s"] > 0
        assert row["peak_bytes"] > row["state_bytes"] > 0
        assert row["path"] in (["step"] if row["variant"] == "eager" else ["step", "traced", "compiled"])
        assert row["matrices_ms"] > 0
    assert len(table(measured["rows"]).splitlines()) == len(rows) + 1
    assert json.loads(json.dumps(measured, allow_nan=False))["rows"] == measured["rows"]


def test_a_recurrent_state_has_one_size_and_a_cache_grows_with_the_context(measured):
    size = {(row["architecture"], row["variant"], row["context"]): row["state_bytes"] for row in measured["rows"] if row["batch"] == 1}
    for name in ("resonator", "harmonic"):
        assert size[name, "static", 32] == size[name, "static", 128]
    per_token = 2 * 32 * 4 * next(item["options"]["layers"] for item in measured["protocol"]["models"] if item["name"] == "transformer")
    assert size["transformer", "eager", 128] - size["transformer", "eager", 32] == 96 * per_token
    assert size["transformer", "static", 128] - size["transformer", "static", 32] == 96 * per_token


def test_the_eager_cache_takes_more_memory_at_its_peak_than_the_static_one(measured):
    peak = {row["variant"]: row["peak_bytes"] / row["state_bytes"] for row in measured["rows"]
            if (row["architecture"], row["context"], row["batch"]) == ("transformer", 128, 1)}
    assert peak["eager"] > 1.1 * peak["static"]


def test_a_row_that_does_not_fit_is_a_failure_and_the_others_go_on(monkeypatch):
    def full(model, ids, room):
        if ids.shape[1] == 128:
            raise MemoryError("allocate 1 GiB")
        return read_prompt(model, ids, room)

    monkeypatch.setattr(decode, "read_prompt", full)
    found = measure(SMALL, candidates(("harmonic",), hidden=32, vocab_size=V, match=""))
    assert [(item["context"], item["status"]) for item in found["protocol"]["failures"]] == [(128, "oom")]
    assert len(found["rows"]) == 2


def test_the_verb_writes_what_was_asked_for(tmp_path):
    out = tmp_path / "decode.json"
    assert (
        main(
            [
                "bench",
                "decode",
                "--out",
                str(out),
                "--architectures",
                "harmonic",
                "--contexts",
                "16",
                "--batches",
                "1",
                "--hidden",
                "16",
                "--tokens",
                "1",
                "--repetitions",
                "1",
                "--match",
                "",
            ]
        )
        == 0
    )
    written = json.loads(out.read_text())
    assert [row["architecture"] for row in written["rows"]] == ["harmonic"]
    assert written["protocol"]["clock"] == "time.perf_counter"
    assert written["environment"]["threads"] == 1
