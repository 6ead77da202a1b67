"""What runs in the engine process: one session at a time, of one kind, that items join and leave."""
