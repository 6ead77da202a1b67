"""How much of a pool is left when 86 models share it: our routing and scheduling beside arrival order."""
