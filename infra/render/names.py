"""Names of objects that others refer to."""

ADMISSION = "kiln-admission"
GATE = "kiln-gate"
SCALER = "kiln-scaler"
AUTHENTICATION = "kiln-kafka"  # KEDA's, to Kafka
SCALER_PORT = 8085
GRPC = "grpc"  # that port by its name
KEDA_ROLE = "keda"
