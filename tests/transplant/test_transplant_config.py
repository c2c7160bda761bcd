from __future__ import annotations

import copy
import json
import subprocess
import sys
from typing import Any

import pytest

from overtone.errors import UserError
from overtone.study import load_study, resolve_study
from overtone.transplant.config import load_transplant
from overtone.transplant.memory import transplant_memory

STUDY: dict[str, Any] = {
    "study": "t", "description": "d", "price_per_hour": 3.0, "corpora": {"enwiki-mini": {}},
    "tokenizers": {"bytes": {"kind": "bytes"}}, "protocols": {"p": {"budget": 4096, "tokens_per_step": 256, "lr": 0.01}},
    "architectures": {"llama": {"model": "llama"}}, "sizes": {"d32": {"hidden": 32}}, "experiments": {},
    "transplants": {"tiny": {
        "base": {"kind": "cell", "protocol": "p", "corpus": "enwiki-mini", "tokenizer": "bytes", "architecture": "llama", "size": "d32",
                 "length": 32, "seed": 1},
        "corpus": "enwiki-mini", "length": 32, "block": {"d_state": 8},
        "variants": {"align": {"phase1": {"objective": "align", "budget": 1024, "lr": 0.01}, "phase2": {"budget": 512, "lr": 0.001}},
                     "leaky": {"control": True, "block": {"kind": "leaky"},
                               "phase1": {"objective": "cross_entropy", "budget": 1024, "lr": 0.01}}},
    }},
}


def study(**changes: Any):
    data = copy.deepcopy(STUDY)
    data["transplants"]["tiny"] |= changes
    return resolve_study(data)


def test_defaults_are_filled_and_blocks_merged() -> None:
    config = load_transplant(study(), "tiny")
    assert dict(config.variant("leaky").block) == {"d_state": 8, "kind": "leaky"}
    first, second = config.variant("align").phases
    assert (first.objective, first.train, first.tokens_per_step, first.clip) == ("align", "blocks_only", 2048, 1.0)
    assert (second.objective, second.train, second.number) == ("cross_entropy", "all", 2)
    assert config.corpora == ["enwiki-mini"]


@pytest.mark.parametrize(("changes", "words"), [
    ({"variants": {"a": {"phase1": {"objective": "aline", "budget": 1, "lr": 1}}}}, "align"),
    ({"variants": {"a": {"phase1": {"objective": "align", "budget": 1}}}}, "lr"),
    ({"variants": {"a": {"phase1": {"objective": "align", "budget": 1, "lr": 1, "steps": 3}}}}, "steps"),
    ({"variants": {"a": {"block": {"kind": "leaky"}, "phase1": {"objective": "align", "budget": 1, "lr": 1}}}}, "control: true"),
    ({"variants": {"a": {"after": "b", "phase1": {"objective": "align", "budget": 1, "lr": 1}}}}, "after"),
    ({"base": {"kind": "hub", "repository": "a/b", "revision": "main"}}, "revision"),
    ({"base": {"kind": "wheel", "package": "p", "version": "1"}}, "member"),
])
def test_a_mistake_names_its_key(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        load_transplant(study(**changes), "tiny")


def test_unknown_names_are_told_the_nearest() -> None:
    config = load_transplant(study(), "tiny")
    with pytest.raises(UserError, match="'align'"):
        config.variant("alignn")
    with pytest.raises(UserError, match="no phase 2"):
        config.phase("leaky", 2)
    with pytest.raises(UserError, match="'tiny'"):
        load_transplant(study(), "tinny")


def test_attention_has_nothing_to_learn_from_itself() -> None:
    edit = {"transplants": {"tiny": {"variants": {"continued": {"phase1": {"objective": "align"}}}}}}
    with pytest.raises(UserError, match="attention has nothing to learn from itself"):
        load_transplant(load_study("mini", edit), "tiny")


@pytest.mark.parametrize("name", ["smoke", "mini", "smollm2", "paper"])
def test_the_studies_that_ship_have_sound_transplants(name: str) -> None:
    shipped = load_study(name)
    for transplant in shipped.transplants:
        config = load_transplant(shipped, transplant)
        assert all(row["fits"] for row in transplant_memory(config))
        assert sum(not variant.control for variant in config.variants.values()) >= 1


def test_reading_a_configuration_imports_no_torch() -> None:
    code = (f"import json, sys\nfrom overtone.study import resolve_study\nfrom overtone.transplant.config import load_transplant\n"
            f"from overtone.transplant.memory import transplant_memory\n"
            f"transplant_memory(load_transplant(resolve_study(json.loads({json.dumps(json.dumps(STUDY))})), 'tiny'))\n"
            "print('torch' in sys.modules)")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
