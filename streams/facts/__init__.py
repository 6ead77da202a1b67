"""What changes while admission runs, each followed in a module of its own and written into the world it decides by."""
