"""How an answer becomes a score: the metric kinds, and the parts they are built from.

A metric is declared in YAML. `registry` finds the class of its `kind` and builds it, whereby all that can be known
without data is checked. Kinds lie in `kinds/`, one small file each, and do not know each other; what they share
(typed replies, score rules, scales, chains of prompts) lies beside it. Who judges is a protocol: nothing here knows a
model or an endpoint.
"""
