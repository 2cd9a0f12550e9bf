"""Metric kinds, and the parts they are built from.

A metric is declared in YAML. `registry` finds the class of its `kind` and builds it, which checks everything that can
be checked without data. Each kind is a small module in `kinds/`, independent of the others. Shared parts (typed
replies, score rules, scales, chains of prompts) are in this package. The judge is a protocol: no metric depends on a
model or an endpoint.
"""
