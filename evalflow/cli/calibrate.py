"""The arguments of `calibrate`."""

from __future__ import annotations

from evalflow.cli.words import console, parser_of


def calibrate(words: list[str]) -> int:
    """Read the arguments of `calibrate`, and do it."""
    from evalflow.app import calibrate as app

    what = "Hold the judge against people's labels, and correct its mean by them; or draw answers for people to label."
    parser = parser_of("calibrate", what)
    parser.add_argument("run", nargs="?", help="a run's or sweep's folder; the latest without it")
    parser.add_argument("--labels", metavar="FILE", help="labels (.csv, .jsonl); without it, those of the data")
    unsplit = "of a sweep: all labels both choose the judge and correct its mean, and not half of them each"
    parser.add_argument("--no-split", action="store_true", help=unsplit)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--sample", type=int, metavar="N", help="write a sheet of N answers to label, drawn at random")
    parser.add_argument("--out", metavar="FILE", help="the sheet (labels.csv), .csv or .jsonl; topped up if it exists")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    alike = "draw as many of each; the sheet then has weights"
    parser.add_argument("--stratify", choices=("score", "tag"), metavar="score|tag", help=alike)
    whole = "draw whole groups, of about N answers together, where reading one answer of a document helps with the next"
    parser.add_argument("--by-group", action="store_true", help=whole)
    parser.add_argument("--metric", help="in the sheet, only this metric")
    return app.calibrate(parser.parse_args(words), console())
