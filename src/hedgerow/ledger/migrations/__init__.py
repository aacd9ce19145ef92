"""Alembic's: how a ledger of any earlier version becomes one of this version. Run by the writer, see `store`."""
