"""The sub-commands of `kiln` that belong to the GPU consumer."""
