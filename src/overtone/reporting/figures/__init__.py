"""Figures: each is drawn from its table's CSV and nothing else, in the look of `overtone.reporting.style`."""
