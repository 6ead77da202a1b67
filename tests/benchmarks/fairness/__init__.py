"""What one tenant's flood costs another: admission, the lanes' logs, the scheduler and a virtual engine in a row."""
