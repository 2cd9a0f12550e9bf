"""A scripted OpenAI-compatible endpoint over real HTTP, for the tests of evalflow and of what is built on it.

    from evalflow.testing import Endpoint, reply, status

    def judge(request):
        return {"verdict": "supported" if "Paris" in request.text else "contradicted"}

    with Endpoint(judge) as endpoint:
        ...  # run with judge=openai judge.base_url={endpoint.url}

A script is a callable, a list of replies, or None, which answers any schema with its smallest instance. `calls` is a
reply that calls tools; `numbered_results` has one result for each item. Faults to script: `status`, `reset`, `cut`,
`silence`, `trickle`, `html`, `malformed`, `off_schema`, `no_choices`, `refusal`. `faulty` mixes them into a script at
random, and `.after(seconds)` delays any step. `Batches` are the batches of an endpoint.
"""

from evalflow.records import numbered_results
from evalflow.testing.batches import Batches
from evalflow.testing.endpoint import Endpoint, ScriptError, by_schema
from evalflow.testing.faults import cut, faulty, html, malformed, off_schema, reset, silence, status, trickle
from evalflow.testing.replies import Request, Step, auto, calls, embeddings, no_choices, refusal, reply, vector

__all__ = [
    "Batches",
    "Endpoint",
    "Request",
    "ScriptError",
    "Step",
    "auto",
    "by_schema",
    "calls",
    "cut",
    "embeddings",
    "faulty",
    "html",
    "malformed",
    "no_choices",
    "numbered_results",
    "off_schema",
    "refusal",
    "reply",
    "reset",
    "silence",
    "status",
    "trickle",
    "vector",
]
