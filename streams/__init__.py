"""How it flows: leases, views, the intakes, the admission service and the command line."""
