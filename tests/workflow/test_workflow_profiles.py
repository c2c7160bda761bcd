"""Every key of every profile is an option that Snakemake, or the plugin it names, knows."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
import yaml
from checkout import ROOT
from snakemake.cli import get_argument_parser
from snakemake_executor_plugin_slurm import ExecutorSettings as SlurmSettings

PROFILES = sorted(path.parent.name for path in (ROOT / "profiles").glob("*/profile.yaml"))
# Settings of the plugins that the tests do not install, as of the versions named.
KUBERNETES_0_5_1 = ("namespace", "cpu_scalar", "service_account_name", "privileged", "persistent_volumes", "omit_job_cleanup")
S3_0_3_6 = ("endpoint_url", "region", "access_key", "secret_key", "token", "signature_version", "retries")


def known() -> set[str]:
    core = {option.lstrip("-") for action in get_argument_parser()._actions for option in action.option_strings}
    plugins = {"slurm": [field.name for field in fields(SlurmSettings)], "kubernetes": KUBERNETES_0_5_1, "storage-s3": S3_0_3_6}
    return core | {f"{plugin}-{name.replace('_', '-')}" for plugin, names in plugins.items() for name in names}


def keys(text: str) -> set[str]:
    """Top-level keys, those that are commented out included."""
    return set(re.findall(r"^(?:# )?([a-z0-9-]+):(?: |$)", text, re.M))


def test_the_three_profiles_are_there() -> None:
    assert PROFILES == ["default", "kubernetes", "slurm"]


@pytest.mark.parametrize("name", PROFILES)
def test_every_key_is_an_option(name: str) -> None:
    text = (ROOT / f"profiles/{name}/profile.yaml").read_text()
    assert keys(text) >= set(yaml.safe_load(text))
    assert keys(text) - known() == set()


@pytest.mark.parametrize("name", PROFILES)
def test_every_key_is_commented(name: str) -> None:
    lines = (ROOT / f"profiles/{name}/profile.yaml").read_text().splitlines()
    for number, line in enumerate(lines):
        if re.match(r"[a-z0-9-]+:", line):
            following = lines[number + 1] if number + 1 < len(lines) else ""
            assert "#" in line or (line.endswith(":") and "#" in following), line


@pytest.mark.parametrize("name", PROFILES)
def test_groups_name_rules_of_the_workflow(name: str) -> None:
    profile = yaml.safe_load((ROOT / f"profiles/{name}/profile.yaml").read_text())
    rules = set(re.findall(r"^rule (\w+):", "".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk")), re.M))
    groups = profile.get("groups", {})
    assert set(groups) <= rules
    assert set(profile.get("group-components", {})) == set(groups.values())


def test_what_the_default_profile_sets_does_not_bind_a_cluster() -> None:
    """Snakemake reads profiles/default along with --profile and lets it win."""
    default = yaml.safe_load((ROOT / "profiles/default/profile.yaml").read_text())
    for name in ("slurm", "kubernetes"):
        profile = yaml.safe_load((ROOT / f"profiles/{name}/profile.yaml").read_text())
        assert all(profile[key] == default[key] for key in set(profile) & set(default))
        assert set(default["resources"]) <= set(profile["set-resource-scopes"])
