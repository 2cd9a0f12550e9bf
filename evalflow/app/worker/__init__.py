"""The worker: executes queued runs, each in its own process."""

from evalflow.app.worker.worker import Worker

__all__ = ["Worker"]
