"""What a week costs with each way to scale, and which deadlines it misses."""
