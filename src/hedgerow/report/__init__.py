"""What hedging has brought, from the ledger: `gathering` reads it once, `analysis` compares, `verdict` and `advice` say
in words what that means, `terminal`, `page` and JSON show it. docs/experiment.md has the statistics and their sources.
"""
