from __future__ import annotations

import pytest
import tokenizers
import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

lm_eval = pytest.importorskip("lm_eval")


def test_the_evaluation_harness_scores_a_saved_transplant(tmp_path, student) -> None:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    words = {"<unk>": 0, "<eos>": 1, "<pad>": 2} | {f"w{index}": index for index in range(3, 61)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>", eos_token="<eos>", pad_token="<pad>")
    student.save_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    harness = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=2, device="cpu")
    pairs = [("w3 w4 w5 w6", " w7 w8"), ("w9 w10", " w11 w12 w13")]
    found = harness.loglikelihood([Instance("loglikelihood", {}, pair, 0) for pair in pairs], disable_tqdm=True)
    for (context, continuation), (score, _) in zip(pairs, found, strict=True):
        ids = torch.tensor([[words[word] for word in (context + continuation).split()]])
        with torch.no_grad():
            bits = model(ids, use_cache=False).logits[0].log_softmax(-1)
        start = len(context.split())
        expected = sum(float(bits[place - 1, ids[0, place]]) for place in range(start, ids.shape[1]))
        assert score == pytest.approx(expected, rel=1e-4)
    request = Instance("generate_until", {}, ("w3 w4", {"until": ["<eos>"], "max_gen_toks": 4}), 0)
    written = harness.generate_until([request], disable_tqdm=True)
    assert len(written[0].split()) <= 4
