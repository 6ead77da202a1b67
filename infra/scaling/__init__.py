"""How many replicas Kubernetes and KEDA make of a signal. Pure: the renderer, the scaler and the planner share it."""
