"""The worker: it executes queued runs, each as a process of its own."""

from evalflow.app.worker.worker import Worker

__all__ = ["Worker"]
