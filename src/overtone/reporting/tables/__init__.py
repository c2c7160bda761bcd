"""Tables: each is computed from finished measurements and written as CSV (complete, tidy), Markdown, LaTeX and a sidecar."""
