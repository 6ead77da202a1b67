"""bench-gpu: what the engine makes of a card, with the shapes of real models and random weights."""
