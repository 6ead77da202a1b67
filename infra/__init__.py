"""Where it runs: the development broker, pools, tenants and configurations."""
