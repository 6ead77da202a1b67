"""A Kubernetes control plane with KEDA on this machine, and our pipeline scaled by it: `make k8s-test`."""
