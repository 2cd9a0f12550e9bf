"""What a simulated user does next in a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evalflow.records.spend import NOTHING, Spend

UserState = Literal["goes_on", "goal_reached", "gave_up", "script_over"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedTurn:
    """The next message of a simulated user, or how the user ends the conversation.

    Attributes:
        state: `goes_on` with a message; the other states end the conversation.
        reason: Why the conversation ends, for the report.
        spend: The cost of the call that made the turn.

    Example:
        >>> SimulatedTurn(state="goes_on", message="And on Sundays?").message
        'And on Sundays?'
        >>> SimulatedTurn(state="gave_up", reason="no price after three questions").message
        ''
    """

    state: UserState
    message: str = ""
    reason: str | None = None
    spend: Spend = NOTHING
