"""One row per request and one per attempt, in SQLite or PostgreSQL: what happened, how long it took, what it cost.

Two processes. In the gateway: `book` gathers events by request, `backlog` keeps what is not written yet, `feed` sends
it through a pipe. Behind the pipe: `writer` with its `inbox`, which `fold`s records into rows and has the database
(`writing`, `tables`, `upkeep`) to itself. Whoever wants to know reads with `read`.
"""
