"""Audits: checks that a result could not pass by accident. Each turns subjects into rows of an `AuditReport`.

Imports no torch: the audits of finished metrics (budget) run without it, the others import it when they need it.
"""
