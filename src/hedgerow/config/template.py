"""The file that `hedgerow init` writes."""

from __future__ import annotations

TEMPLATE = """\
# yaml-language-server: $schema=hedgerow.schema.json
# That file, for editors: hedgerow check-config --print-schema > hedgerow.schema.json
# Start: hedgerow serve      Check: hedgerow check-config      Every key: docs/configuration.md

targets:                               # where calls can go
  openai:
    base_url: https://api.openai.com/v1
    api_key: ${OPENAI_API_KEY}         # from the environment; or api_key_file: /run/secrets/openai

  # A second provider makes hedges stronger: its slow moments are not the first one's.
  # azure:
  #   base_url: https://YOUR-RESOURCE.openai.azure.com/openai/v1
  #   api_key: ${AZURE_OPENAI_API_KEY}
  #   model: gpt-5-mini                # sent instead of the name the client asked for

  # Anthropic's clients ask POST /v1/messages; those go to targets that speak it.
  # claude:
  #   base_url: https://api.anthropic.com/v1
  #   api_key: ${ANTHROPIC_API_KEY}
  #   protocol: [anthropic, openai]

routes:                                # what clients ask for in the "model" field
  "*":                                 # any model: keeps the client's model name
    targets: [openai, openai]          # the second is the hedge, here to the same provider
    hedge:
      delay: auto                      # learned; 2s until 100 calls are known. Or 2s, p95, ...; off: no hedging
      budget: 10%                      # hedges as a share of requests, a hard cap
      # allow: [store]                 # hedge the Responses API though it keeps answers unless store is false
    timeouts:
      first_token: 60s                 # of one attempt, streams only
      stall: 30s                       # longest silence within a stream
      total: 10m                       # all attempts together, to the last byte

server:
  listen: 127.0.0.1:8080               # :8080 lets other machines connect; then set api_keys
  # ledger: on                         # what each request took and cost, in hedgerow-ledger.db: hedgerow ledger --help
  # api_keys: ["${HEDGEROW_API_KEY}"]  # keys that clients must present
"""
