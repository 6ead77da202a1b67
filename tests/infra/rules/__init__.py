"""Every alert, asked by Prometheus's own tool whether it fires when it must and is silent when it must not."""
