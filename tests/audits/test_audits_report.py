"""Reports: what counts as a violation, what is printed and written."""

import json

from overtone.audits.report import AuditReport, Row, at_least, at_most, number


def test_a_control_that_passes_is_a_violation_and_one_that_fails_is_none():
    rows = [
        Row("a", "m", 1.0, 2.0, True),
        Row("b", "m", 3.0, 2.0, False),
        Row("c", "m", 1.0, 2.0, True, True),
        Row("d", "m", 3.0, 2.0, False, True),
    ]
    report = AuditReport("x", rows)
    assert [row.subject for row in rows if row.violated] == ["b", "c"]
    assert report.violations == 2
    words = [line.split()[4] for line in report.table().splitlines()[1:5]]
    assert words == ["pass", "FAIL", "NOT", "flagged"]
    assert report.table().endswith("x: 4 rows, 2 violations")


def test_borders_belong_to_the_passing_side_and_nothing_infinite_passes():
    assert at_most("s", "m", 2.0, 2.0).passed
    assert not at_most("s", "m", 2.1, 2.0).passed
    assert at_least("s", "m", 2.0, 2.0).passed
    assert not at_least("s", "m", 1.9, 2.0).passed
    for value in (float("nan"), float("inf"), float("-inf")):
        for row in (at_most("s", "m", value, 2.0), at_least("s", "m", value, 2.0)):
            assert row.violated
            assert row.measure is None


def test_the_json_has_no_nan_and_says_where_it_was_made():
    written = AuditReport("x", [at_most("s", "m", float("nan"), 1.0)], ["a note"], {"seed": 0}).to_dict()
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert written["violations"] == 1
    assert written["rows"][0] == {"subject": "s", "mode": "m", "measure": None, "threshold": 1.0, "passed": False, "control": False,
                                  "detail": "not a finite number"}
    assert written["environment"]["packages"]["torch"]


def test_numbers_are_short():
    assert [number(value) for value in (None, 0.0, 1.23456e-9, 123456.0, 6.5e12)] == ["-", "0", "1.235e-09", "1.235e+05", "6.500e+12"]
