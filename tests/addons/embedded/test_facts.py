from __future__ import annotations

import pytest

from evalflow.addons.embedded.evidence import weigh, windows
from evalflow.addons.embedded.facts import FactCheck

CONTEXT = (
    "The Harrow Ferry takes 45 minutes and costs €6. Bicycles are not carried on Sundays. Dogs may travel with a lead. "
    "Ms Okafor runs the office in Sellan. Tickets are sold before departure. The United Kingdom gave 3,512,000 pounds."
)


def differences(claim: str, context: str = CONTEXT, question: str = "") -> list[str]:
    prepared = windows([context])
    return FactCheck(prepared, question).differences(claim, weigh(claim, prepared).sentences)


@pytest.mark.parametrize(
    "claim",
    [
        "The ferry takes three quarters of an hour.",
        "The Harrow Ferry takes 45 min and costs 6 euros.",
        "On Sundays bicycles aren't carried.",
        "The office in Sellan is run by Okafor.",
        "The UK gave about 3.5 million pounds.",
        "Dogs can travel for no more than €6.",
        "No, bicycles are not carried on Sundays.",
    ],
)
def test_the_same_in_other_words(claim: str) -> None:
    assert differences(claim) == []


@pytest.mark.parametrize(
    ("claim", "difference"),
    [
        ("The ferry takes 40 minutes.", "says 40 minutes, the context says 45 minutes"),
        ("The ferry costs seven euros.", "says seven euros, the context says €6"),
        ("Bicycles are not carried on Mondays.", "says Mondays, the context says Sundays"),
        ("The ferry has 12 cabins.", "says 12, which is not in the context"),
        ("The office is run by Ms Brandt.", "names Ms Brandt, which is not in the context"),
        ("Bicycles are carried on Sundays.", "says carried, the context says “not … carried”"),
        ("Dogs may not travel with a lead.", "says “not … travel”, the context says travel"),
        ("Tickets are never sold out.", "says “never … sold”, the context says sold"),
        ("Only dogs may travel.", "says “Only”, the context does not"),
        ("Tickets are sold after departure.", "says after, the context says before"),
    ],
)
def test_what_differs_is_named(claim: str, difference: str) -> None:
    assert differences(claim) == [difference]


@pytest.mark.parametrize(
    ("context", "claim", "difference"),
    [
        ("Der Pass kostet 37 Euro.", "Der Pass kostet 47 Euro.", "says 47 Euro, the context says 37 Euro"),
        ("Der Pass kostet 37 Euro.", "Der Ausweis kostet die Bürger 37 Euro.", ""),
        ("Hunde sind erlaubt.", "Hunde sind nicht erlaubt.", "says “nicht … erlaubt”, the context says erlaubt"),
        ("Le musée ouvre à 9 heures.", "Le musée n'ouvre pas.", "says “pas”, the context denies nothing"),
        ("Cierra los lunes.", "Cierra los martes.", "says martes, the context says lunes"),
    ],
)
def test_other_languages(context: str, claim: str, difference: str) -> None:
    assert differences(claim, context) == ([difference] if difference else [])


def test_what_the_question_says_needs_no_evidence() -> None:
    claim = "For your 3 dogs the ferry costs €6."
    assert differences(claim) != []
    assert differences(claim, question="What do I pay for my 3 dogs?") == []


def test_the_row_of_a_table_with_all_amounts_is_the_one_that_is_meant() -> None:
    table = "Late by, share of the fare\n30 to 59 minutes 25 %\n60 to 119 minutes 50 %\n120 minutes or more 100 %"
    assert differences("From 60 to 119 minutes late, you get 50 % of the fare.", table) == []
    assert differences("From 60 to 119 minutes late, you get 75 % of the fare.", table) != []


def test_a_number_of_another_sentence_is_no_evidence() -> None:
    context = "The card is valid for 24 months. If it is lost within 12 months, we replace it."
    assert differences("The card is valid for 12 months.", context) == ["says 12 months, the context says 24 months"]


def test_what_excludes_bears_out_a_denial() -> None:
    assert differences("It does not run in winter.", "It runs only in summer.") == []
    assert differences("Rubble has no tiles.", "Rubble must be free of tiles.") == []


def test_without_a_passage_nothing_differs() -> None:
    assert FactCheck([]).differences("It costs €5.", ()) == []
