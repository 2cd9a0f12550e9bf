"""Reads one-line JavaScript and its patterns, and says the same in rules."""
