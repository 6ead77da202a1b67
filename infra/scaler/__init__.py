"""The external scaler: KEDA asks it how many GPU-seconds a pool has to do."""
