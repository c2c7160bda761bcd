import dataclasses
import math
import re

import pytest
import torch

from overtone.errors import UserError
from overtone.files import canonical_json
from overtone.models import build_model
from overtone.training.optimizer import EPS, AdamW
from overtone.training.protocol import TrainingProtocol

RULES = TrainingProtocol(budget=1000, tokens_per_step=100, evaluation_length=100, lr=0.1)


def test_rate_rises_to_the_peak_then_falls_to_its_share():
    rates = [RULES.rate_at(step, 100, 0.1) for step in range(100)]
    assert rates[0] == pytest.approx(0.01)
    assert rates[9] == pytest.approx(0.1)
    assert rates[-1] == pytest.approx(0.01)
    assert rates[:10] == sorted(rates[:10])
    assert rates[9:] == sorted(rates[9:], reverse=True)
    middle = 0.1 * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * 45 / 90)))
    assert rates[54] == pytest.approx(middle)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_rate_of_a_handful_of_steps_is_positive(steps):
    assert all(0 < RULES.rate_at(step, steps, 0.1) <= 0.1 for step in range(steps))


def test_protocol_of_a_cell(make_cell):
    protocol = TrainingProtocol.from_cell(make_cell(lr="swept", betas=[0.8, 0.9]))
    assert protocol.lr is None
    assert protocol.betas == (0.8, 0.9)


@pytest.mark.parametrize(
    ("training", "told"),
    [
        ({"momentum": 0.9}, "key: 'momentum' is not known"),
        ({"lr": "fast"}, "lr: found 'fast', expected a number or 'swept'"),
        ({"lr": -0.1}, "lr: found -0.1, expected more than 0"),
        ({"lr": {"harmonic": 0.1}}, "lr: found {'harmonic': 0.1}, expected a number or 'swept'"),
        ({"budget": "many"}, 'budget: found "many", expected integer'),
        ({"budget": 1024.0}, "budget: found 1024.0, expected integer"),
        ({"budget": 0}, "budget: found 0, expected at least 1"),
        ({"clip": "hard"}, 'clip: found "hard", expected number'),
        ({"clip": None}, "clip: found null, expected number"),
        ({"betas": 0.9}, "betas: found 0.9, expected array"),
        ({"betas": [0.9]}, "betas: found [0.9], expected at least 2"),
        ({"betas": [0.9, "x"]}, 'betas.1: found "x", expected number'),
        ({"evaluation_length": "long"}, "evaluation_length: found 'long', expected a whole number"),
        ({"evaluation_length": 0}, "evaluation_length: found 0, expected a whole number"),
        ({"carry_state": "no"}, 'carry_state: found "no", expected boolean'),
        ({"per_length": {}}, "key: 'per_length' is not known"),
    ],
)
def test_a_wrong_protocol_names_key_and_value(make_cell, training, told):
    with pytest.raises(UserError, match=re.escape(told)) as error:
        TrainingProtocol.from_cell(make_cell(**training))
    assert "cell toy/counter/ids/transformer/d16/64/1: training" in str(error.value)


def test_a_missing_key_of_the_protocol_is_named(make_cell):
    cell = make_cell()
    rules = cell.config()["training"]
    del rules["lr"]
    with pytest.raises(UserError, match="the key 'lr' is missing"):
        TrainingProtocol.from_cell(dataclasses.replace(cell, training=canonical_json(rules)))


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.embedding = torch.nn.Embedding(7, 4)
        self.linear = torch.nn.Linear(4, 3)
        self.time = torch.nn.Parameter(torch.randn(4, 2, generator=generator))
        self.time._no_weight_decay = True
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator)


def test_adamw_is_the_published_update_in_float64_and_decays_matrices_only():
    model = Small()
    optimizer = AdamW(model, RULES)
    assert {name for name, decay in optimizer.decay.items() if decay} == {"linear.weight"}
    values = {name: value.detach().double() for name, value in model.named_parameters()}
    first = {name: torch.zeros_like(value) for name, value in values.items()}
    second = {name: torch.zeros_like(value) for name, value in values.items()}
    generator = torch.Generator().manual_seed(1)
    for step in range(1, 6):
        rate = 0.1 / step
        for name, parameter in model.named_parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
            gradient = parameter.grad.double()
            values[name] *= 1 - rate * (0.1 if name == "linear.weight" else 0.0)
            first[name] = 0.9 * first[name] + 0.1 * gradient
            second[name] = 0.95 * second[name] + 0.05 * gradient**2
            values[name] -= rate * (first[name] / (1 - 0.9**step)) / ((second[name] / (1 - 0.95**step)).sqrt() + EPS)
        optimizer.step(rate)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.detach().double(), values[name], rtol=1e-5, atol=1e-6)


def test_a_time_constant_of_mamba_is_not_pulled_to_zero():
    """A_log is a matrix, and no linear map: the published Mamba exempts it."""
    decay = AdamW(build_model("mamba", vocab_size=11, hidden=16), RULES).decay
    assert decay["blocks.0.A_log"] == 0.0
    assert decay["blocks.0.in_proj.weight"] == 0.1


def test_a_parameter_without_gradient_stays():
    model = Small()
    before = model.linear.weight.detach().clone()
    optimizer = AdamW(model, RULES)
    model.linear.bias.grad = torch.ones(3)
    optimizer.step(0.1)
    assert torch.equal(model.linear.weight, before)
    assert "linear.weight" not in optimizer.moments


def test_moments_survive_a_checkpoint_bit_for_bit():
    model, twin = Small(), Small()
    one, two = AdamW(model, RULES), AdamW(twin, RULES)

    def step(target, optimizer, seed):
        generator = torch.Generator().manual_seed(seed)
        for parameter in target.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step(0.05)

    step(model, one, 0)
    twin.load_state_dict(model.state_dict())
    two.load({name: value.clone() for name, value in one.tensors().items()})
    step(model, one, 1)
    step(twin, two, 1)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))
