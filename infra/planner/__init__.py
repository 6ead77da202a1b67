"""What a pool would cost and miss: a trace replayed through the product's own decisions on a virtual clock."""
