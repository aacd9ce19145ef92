"""Sums of bills against the invoices of those who billed: equal where they are exact, in their bounds where not."""

from __future__ import annotations

from pathlib import Path

from hedgerow.events import Certainty
from tests.e2e.invoices import play


def test_what_requests_come_to_is_what_the_labs_bill(tmp_path: Path) -> None:
    """2,000 mixed requests; `python -m tests.e2e.invoices 20000` plays more of them."""
    books = play(2_000, tmp_path)
    assert list(books.problems()) == []
    assert len(books.billed) == 2_000
    assert books.rows.total() == sum(map(len, books.bills.values()))
    ours, theirs = books.exact
    assert ours == theirs > 0
    least, guess, said, _ = books.others
    assert 0 < least <= said
    assert guess > 0
    assert set(books.outcomes) >= {
        "won",
        "superseded",
        "kept",
        "failed",
        "failed_after_commit",
        "client_gone",
        "rejected",
    }
    assert set(books.certainties) == set(Certainty)
