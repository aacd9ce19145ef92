"""Run by Alembic, with the connection that `hedgerow.ledger.store.migrate` has opened and locked."""

from __future__ import annotations

from alembic import context

from hedgerow.ledger.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
context.run_migrations()
