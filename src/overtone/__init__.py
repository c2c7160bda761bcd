"""Overtone: two language-model papers put to the test, claim by claim.

Importing the package is cheap (no torch); the verbs import what they need. Where transformers is used beside it, before or
after, `AutoModelForCausalLM` and the other Auto classes know every registered architecture.
"""

from overtone._hooks import register_at_first_use

__version__ = "0.1.0"

register_at_first_use()
