"""The peers' servers. Each runs in an environment of its own; of ours they import the virtual device alone."""
