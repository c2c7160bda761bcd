from __future__ import annotations

import pytest
import yaml

from overtone.study.config import load_config, typed


@pytest.mark.parametrize(
    "text",
    ["{protocols: {harmonic: {budget: 1024, lr: 0.5}}}", "{experiments: {crossover: {seeds: [1, 2]}}}", "{a: true, b: null}"],
)
def test_an_edit_from_the_command_line_means_what_it_means_in_a_file(text):
    assert typed(yaml.load(text, Loader=yaml.BaseLoader)) == yaml.safe_load(text)


@pytest.mark.parametrize("word", ["harmonic", "2026-01-01", "a: b", "[1", "", "1 2"])
def test_words_stay_words(word):
    expected = None if word == "" else word
    assert typed(word) == expected


def test_an_edit_given_as_text_reaches_the_study():
    _, study = load_config({"study": "smoke", "edit": {"experiments": {"ablations": {"seeds": ["1", "2"]}}}})
    assert study.experiments["ablations"].seeds == (1, 2)
