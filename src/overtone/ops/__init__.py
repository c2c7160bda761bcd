"""The operators the models are made of; each has one public entry, a definition to test against, and fast backends.

linear_scan             h_t = a_t h_(t-1) + b_t, elementwise
resonant_convolution    y = k * u with k[t] = exp(-alpha t) cos(omega t + phi), a head at a time; resonant_step decodes
linear_cross_entropy    the LM head and its loss without the (tokens, vocabulary) logits in memory
"""

from overtone.ops.linear_cross_entropy import linear_cross_entropy
from overtone.ops.linear_scan import linear_scan
from overtone.ops.resonant_convolution import kernel_energy, resonant_convolution, resonant_modes, resonant_step

__all__ = ["kernel_energy", "linear_cross_entropy", "linear_scan", "resonant_convolution", "resonant_modes", "resonant_step"]
