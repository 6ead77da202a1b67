"""The peers' services. Each runs in an environment of its own; of ours they import schemas and admission alone."""
