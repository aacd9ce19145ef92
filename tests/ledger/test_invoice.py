"""What the ledger says things cost, against the invoices of the labs, attempt by attempt."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hedgerow.lab.process import LabProcess
from tests.e2e.support import GatewayProcess, config
from tests.ledger.test_kill import ledger, under_load

pytestmark = pytest.mark.e2e


def test_exact_costs_are_the_labs_invoice_and_others_bound_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    with LabProcess(["--name", "primary"]) as primary, LabProcess(["--name", "backup"]) as backup:
        settings = config(primary.base_url, backup.base_url, delay="50ms", server={"ledger": {"url": url}})
        for target in settings["targets"].values():
            target["price"] = {"input": 0.25, "output": 2}  # the labs' own
        with GatewayProcess(settings) as served:
            load = asyncio.run(under_load(served.address, 11, 4.0))
        invoices = {(lab.name, each["key"]): each["billed_nano_usd"] for lab in (primary, backup) for each in lab.log()}
    requests, attempts = ledger(url)
    assert len(load.answered) > 200
    names = {(row.process, row.number): row.request_id for row in requests}
    billed = [(row, invoices.get((row.target, names[row.process, row.number]), 0)) for row in attempts]
    exact = [(row.cost_nanousd, invoice) for row, invoice in billed if row.certainty == "exact"]
    unsure = [(row, invoice) for row, invoice in billed if row.certainty != "exact"]
    assert len(exact) > 100
    assert [cost for cost, _ in exact] == [invoice for _, invoice in exact]
    assert unsure
    outside = [
        (row.outcome, row.least_nanousd, invoice, row.most_nanousd)
        for row, invoice in unsure
        if not (row.least_nanousd or 0) <= invoice <= (invoice if row.most_nanousd is None else row.most_nanousd)
    ]
    assert outside == []
    assert sum(row.cost_nanousd or 0 for row in requests) == sum(row.cost_nanousd or 0 for row in attempts)
