"""What is said: events, configurations, topics and their codec. Imports nothing of ours."""
