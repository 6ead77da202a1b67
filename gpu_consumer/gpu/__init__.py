"""The card itself: which is ours, how busy and how well it is, by NVML. No torch: the consumer process asks, too."""
