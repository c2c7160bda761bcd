"""Overtone: two language-model papers put to the test, claim by claim.

Importing the package is cheap (no torch); the verbs import what they need.
"""

__version__ = "0.1.0"
