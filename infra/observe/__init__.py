"""What is seen from outside: the list of all metrics, and what is rendered from it: rules, dashboards, their pages."""
