"""The stages of a decision, one file each. A stage refuses, or writes what it found into the draft."""
