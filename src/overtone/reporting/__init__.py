"""From finished measurements to tables, figures, verdicts and the page. Imports no torch."""
