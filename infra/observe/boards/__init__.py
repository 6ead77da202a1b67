"""One dashboard a module. A panel's query names what infra/observe/metrics.py lists, or what a rule records."""
