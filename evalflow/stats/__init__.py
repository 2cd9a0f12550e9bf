"""Statistics of scores: pure functions of arrays.

Arguments that mean the same everywhere:
    scores, a, b: One score per case, the mean of its repeats; a and b are those of two runs. No NaN.
    human, judge: One value per answer by people and by the judge, on the same scale.
    clusters: The cluster of each case or answer; None if all are independent.
    weights: How many answers each labelled answer represents; None if all were equally likely to be labelled.
    counts: Records as a table: cluster (any), n (records of one cluster), clusters (how many equal clusters the row
        stands for), and the columns named in the function's docstring.
    bounded: Whether scores lie in 0..1.
    seed: The seed of all random draws.
"""
