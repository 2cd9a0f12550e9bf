"""Runs held against each other: two of them, every two of a sweep, or one and its baseline."""
