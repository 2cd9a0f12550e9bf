"""What the failures of any HTTP service mean."""

from __future__ import annotations

from evalflow.calls.allowance import retry_after_s
from evalflow.calls.faults import RETRIED, Dialect, Fault, excerpt
from evalflow.calls.transport import Response


def of_status(response: Response) -> Fault:
    """The fault of a service's response whose status is not 2xx.

    What a service of one's own says to one case says little about the next, so only a refused key ends a run.
    """
    status, text = response.status, excerpt(response.body)
    message = f"HTTP {status}: {text}" if text else f"HTTP {status}"
    if status == 401:
        return Fault("stop", "authentication", message, "check target.headers: the service accepts no such key", text)
    if 300 <= status < 400:
        place = response.headers.get("location") or "nowhere"
        message = f"HTTP {status}: redirected to {place}, which is not followed; set target.url to the final address"
        return Fault("give_up", "redirect", message, raw=text)
    if status >= 500 or status in RETRIED:
        error_type = {429: "rate_limit", 408: "timeout"}.get(status, "server")
        return Fault("retry", error_type, message, raw=text, retry_after_s=retry_after_s(response.headers))
    return Fault("give_up", "bad_request", message, raw=text)


SERVICE = Dialect(of_status, "target.url", "check target.url, and that the service is up")
"""Services that speak JSON in their own ways."""
