"""Judges held against people's labels: agreement, corrected means, certificates.

A sheet is drawn (`labelling`) and comes back as labels of a run's answers (`bound_labels`; of all runs of a sweep,
`sweep_labels`). `calibrating` makes a calibration of them, keeps it in the run's folder and derives it again;
`certify` decides what deserves one of the `certificates`; `hold` does all of that to one run, and writes its reports
again. Of a sweep, `choosing` does it to every run, and `ranking` says which judge agrees most. `calibrate` is the
command over both.
"""
