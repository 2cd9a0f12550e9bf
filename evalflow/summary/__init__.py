"""Records to tables: the journal read, scores, the summary, its files, and the gates on it."""

from evalflow.summary.calibration import CalibrationRow, calibrate_scores
from evalflow.summary.choosing import Candidate, choose, chooses
from evalflow.summary.compare import ComparisonRow, Traits, adjusted, cases_to_decide, compare_cases, not_worse
from evalflow.summary.composites import Composite, Source
from evalflow.summary.disagreement import disagreements
from evalflow.summary.gate_config import parse_gates
from evalflow.summary.gates import Condition, Gate, GateResult, GateRow, evaluate_gates, parse_condition
from evalflow.summary.journal import journal_record, journal_row, json_text, torn_tail
from evalflow.summary.jsonline import json_line
from evalflow.summary.labelled import SERIES, label_frame, labelled_scores
from evalflow.summary.pairing import Pairing, by_case, pair_scores
from evalflow.summary.passing import Passing, passing_rates
from evalflow.summary.samples import compare_samples
from evalflow.summary.scan import Journal, Order, scan_journal
from evalflow.summary.schema import journal_schema, scores_schema, summary_schema
from evalflow.summary.summarise import Summary, summarise
from evalflow.summary.table import Threshold, score_table, with_passed, write_scores
from evalflow.summary.write import safe_text, summary_document, write_summary

__all__ = [
    "SERIES",
    "CalibrationRow",
    "Candidate",
    "ComparisonRow",
    "Composite",
    "Condition",
    "Gate",
    "GateResult",
    "GateRow",
    "Journal",
    "Order",
    "Pairing",
    "Passing",
    "Source",
    "Summary",
    "Threshold",
    "Traits",
    "adjusted",
    "by_case",
    "calibrate_scores",
    "cases_to_decide",
    "choose",
    "chooses",
    "compare_cases",
    "compare_samples",
    "disagreements",
    "evaluate_gates",
    "journal_record",
    "journal_row",
    "journal_schema",
    "json_line",
    "json_text",
    "label_frame",
    "labelled_scores",
    "not_worse",
    "pair_scores",
    "parse_condition",
    "parse_gates",
    "passing_rates",
    "safe_text",
    "scan_journal",
    "score_table",
    "scores_schema",
    "summarise",
    "summary_document",
    "summary_schema",
    "torn_tail",
    "with_passed",
    "write_scores",
    "write_summary",
]
