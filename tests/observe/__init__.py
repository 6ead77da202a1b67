"""A real Prometheus that scrapes a running pipeline: every panel and every rule is asked of it."""
