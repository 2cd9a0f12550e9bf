"""The values that all parts of evalflow exchange, never changed. A score is returned, never stored on a metric."""

from evalflow.records.answers import (
    CUT_OFF,
    EMBED,
    EVIDENCE_TASKS,
    FILTERED,
    RECORDED_FAILURE,
    Answer,
    AnswerStatus,
    Ask,
    Case,
    Context,
    Distribution,
    Embedded,
    JudgeInfo,
    Message,
    Reply,
    ToolCall,
    numbered,
    texts_of,
)
from evalflow.records.scores import (
    CASES,
    TOLERANCE,
    Direction,
    FigureSpec,
    Label,
    Outcome,
    Path,
    ScoreRecord,
    Status,
    passes,
)
from evalflow.records.spend import NOTHING, CallCosts, Spend, Usage, longest

__all__ = [
    "CASES", "CUT_OFF", "EMBED", "EVIDENCE_TASKS", "FILTERED", "NOTHING", "RECORDED_FAILURE", "TOLERANCE", "Answer",
    "AnswerStatus", "Ask", "CallCosts", "Case", "Context", "Direction", "Distribution", "Embedded", "FigureSpec",
    "JudgeInfo", "Label", "Message", "Outcome", "Path", "Reply", "ScoreRecord", "Spend", "Status", "ToolCall",
    "Usage", "longest", "numbered", "passes", "texts_of",
]  # fmt: skip
