"""Carrying out the runs that a workspace has queued, each as a process of its own."""

from evalflow.app.worker.worker import Worker

__all__ = ["Worker"]
