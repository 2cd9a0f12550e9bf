"""Moments of repeated scores, computed in another way than `summary.slices` does."""

import numpy as np

from evalflow.stats.variance import Repeated


def repeated(scores):
    """Moments of the repeats in a table of scores.

    Args:
        scores: Shape (cases, answers, judgements), or (cases, repeats) for one kind of noise, which then counts as the
            generator's; NaN for a missing score. Cases without any score are left out.
    """
    table = np.asarray(scores, dtype=np.float64)
    table = table[:, :, None] if table.ndim == 2 else table
    table = table[~np.isnan(table).all(axis=(1, 2))]
    judgements = (~np.isnan(table)).sum(axis=2)
    answered = judgements > 0
    answers = answered.sum(axis=1)
    answer = np.nansum(table, axis=2) / np.where(answered, judgements, 1)
    mean = np.where(answered, answer, 0).sum(axis=1) / answers
    squares = (np.where(answered, answer - mean[:, None], 0) ** 2).sum(axis=1)
    twice = judgements > 1
    within = np.nansum((table - answer[:, :, None]) ** 2, axis=2) / np.where(twice, judgements - 1, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return Repeated(
            mean,
            answers.astype(np.float64),
            np.where(answers > 1, squares / (answers - 1), np.nan),
            np.where(answered, 1 / judgements, 0).sum(axis=1) / answers,
            np.where(twice, within, 0).sum(axis=1) / twice.sum(axis=1),
        )
