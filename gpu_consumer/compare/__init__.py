"""What two configurations make of the same prompts, and what that costs."""
