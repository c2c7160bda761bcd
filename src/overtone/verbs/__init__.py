"""One module a verb: its arguments and the call that does the work."""
