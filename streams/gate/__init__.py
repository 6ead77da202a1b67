"""The gate: what tenants wrote to topics of their own goes on to requests, each in the name of its topic's tenant."""
