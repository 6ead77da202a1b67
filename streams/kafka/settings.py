"""How this process talks to Kafka. The environment is read here and nowhere else in this package."""

import ssl
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.settings import setting_refused
from streams.kafka.errors import ConnectionSettingsError

# Records are 4 MiB at most. Twice that leaves room for keys, headers and the batch around them (case KQ-17).
_BYTES_MAX = 8 << 20
_BYTES_CEILING = 64 << 20


class _Surroundings(BaseSettings):
    """What decides which broker is meant, before the settings proper are made."""

    kafka_bootstrap_servers: str | None = None
    kiln_home: Path = Path(".kiln")


class KafkaSettings(BaseSettings):
    """Where the cluster is and how patient we are with it. Environment variables have the prefix KAFKA_."""

    model_config = SettingsConfigDict(env_prefix="KAFKA_", frozen=True)

    bootstrap_servers: str = Field(
        pattern=r"^[^\s,]+:\d{1,5}(,[^\s,]+:\d{1,5})*$", description="host:port of one broker or more, by commas"
    )
    client_id: str = Field("promptkiln", min_length=1, max_length=200, description="our name in the brokers' logs")

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="whether connections are encrypted and how we say who we are"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "SCRAM-SHA-512", description="how the password is proven"
    )
    sasl_plain_username: str | None = Field(None, description="for the two SASL protocols")
    sasl_plain_password: SecretStr | None = Field(None, description="for the two SASL protocols")
    ssl_cafile: Path | None = Field(None, description="authorities that sign the brokers; else those of the system")
    ssl_certfile: Path | None = Field(None, description="our own certificate chain, for mutual TLS")
    ssl_keyfile: Path | None = Field(None, description="the key of our own certificate")

    session_timeout_ms: int = Field(
        10_000, ge=1_000, le=300_000, description="silence after which the group takes our partitions away"
    )
    heartbeat_interval_ms: int = Field(
        3_000, ge=100, le=100_000, description="a third of the session at most, so that two may be lost"
    )
    rebalance_timeout_ms: int = Field(
        60_000, ge=1_000, le=3_600_000, description="for one member to let go of its partitions; above the worst revoke"
    )
    max_poll_interval_ms: int = Field(
        300_000, ge=5_000, le=86_400_000, description="without a fetch, after which the client leaves its group"
    )
    request_timeout_ms: int = Field(15_000, ge=1_000, le=300_000, description="for one answer of a broker")
    retry_backoff_ms: int = Field(
        20, ge=1, le=10_000, description="pause before the client asks again; it dominates the time of a take-over"
    )
    reader_retry_backoff_ms: int = Field(
        100, ge=1, le=10_000, description="the same for consumers, whose every failed fetch is logged"
    )
    metadata_max_age_ms: int = Field(60_000, ge=1_000, le=3_600_000, description="until new partitions are noticed")
    connections_max_idle_ms: int = Field(540_000, ge=10_000, le=3_600_000, description="of a connection without use")

    transaction_timeout_ms: int = Field(
        10_000, ge=1_000, le=900_000, description="after which the broker aborts; it stalls every reader until then"
    )
    transaction_deadline_ms: int = Field(
        8_000, ge=500, le=899_000, description="our own deadline for one transaction, below the broker's"
    )
    open_timeout_ms: int = Field(
        30_000, ge=1_000, le=600_000, description="to fence the former owner and have its transaction decided"
    )
    stall_timeout_ms: int = Field(
        30_000, ge=1_000, le=600_000, description="reading a log without progress, after which it has failed"
    )
    close_timeout_ms: int = Field(5_000, ge=100, le=60_000, description="to close one client before it is abandoned")
    backoff_first_ms: int = Field(100, ge=1, le=60_000, description="pause before the first repeat of ours")
    backoff_most_ms: int = Field(30_000, ge=1, le=600_000, description="the longest pause before a repeat of ours")

    fetch_max_wait_ms: int = Field(
        100, ge=1, le=10_000, description="the broker holds an empty fetch so long; a resumed partition waits for it"
    )
    fetch_max_bytes: int = Field(_BYTES_MAX, ge=1 << 20, le=_BYTES_CEILING, description="of one fetch")
    max_partition_fetch_bytes: int = Field(
        _BYTES_MAX, ge=1 << 20, le=_BYTES_CEILING, description="of one partition in one fetch"
    )
    max_request_size: int = Field(_BYTES_MAX, ge=1 << 20, le=_BYTES_CEILING, description="of one record we write")
    max_batch_size: int = Field(
        512 << 10, ge=1 << 10, le=_BYTES_CEILING, description="of records sent as one; below every topic's limit"
    )

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if self.heartbeat_interval_ms * 3 > self.session_timeout_ms:
            raise ValueError("heartbeat_interval_ms is above a third of session_timeout_ms; lower it")
        if self.session_timeout_ms >= self.max_poll_interval_ms:
            raise ValueError("max_poll_interval_ms is not above session_timeout_ms; raise it")
        if self.transaction_deadline_ms >= self.transaction_timeout_ms:
            raise ValueError("transaction_deadline_ms is not below transaction_timeout_ms; lower it")
        if self.backoff_first_ms > self.backoff_most_ms:
            raise ValueError("backoff_first_ms is above backoff_most_ms; lower it")
        if self.fetch_max_bytes < self.max_partition_fetch_bytes:
            raise ValueError("fetch_max_bytes is below max_partition_fetch_bytes; raise it")
        return self

    @model_validator(mode="after")
    def _credentials(self) -> Self:
        named = (self.sasl_plain_username, self.sasl_plain_password)
        if self.security_protocol.startswith("SASL_") and None in named:
            raise ValueError("a SASL protocol needs sasl_plain_username and sasl_plain_password; give both")
        if not self.security_protocol.startswith("SASL_") and named != (None, None):
            raise ValueError("credentials are given and would not be used; set security_protocol to SASL_SSL")
        if (self.ssl_certfile is None) != (self.ssl_keyfile is None):
            raise ValueError("ssl_certfile and ssl_keyfile go together; give both")
        if not self._encrypted and (self.ssl_cafile or self.ssl_certfile):
            raise ValueError("certificates are given and would not be used; set security_protocol to SSL or SASL_SSL")
        return self

    @property
    def _encrypted(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @classmethod
    def load(cls, **given: Any) -> Self:
        """The settings of the environment, over them what is given, and failing both the development broker.

        Raises ConnectionSettingsError where no broker is named or a value is refused.
        """
        around = _Surroundings()
        if "bootstrap_servers" not in given and not around.kafka_bootstrap_servers:
            place = around.kiln_home.expanduser() / "broker" / "bootstrap"
            try:
                given["bootstrap_servers"] = place.read_text().strip()
            except OSError:
                raise ConnectionSettingsError(
                    "no Kafka broker is known: run `kiln broker up`, or set KAFKA_BOOTSTRAP_SERVERS"
                ) from None
        try:
            return cls(**given)
        except ValidationError as error:
            # Only where and why: the values may be secrets.
            raise ConnectionSettingsError(setting_refused(error, cls)) from None

    def unanswered(self, why: str) -> str:
        """The sentence for who cannot go on without a broker."""
        return (
            f"Kafka at {self.bootstrap_servers} does not answer: {why}; look at the broker, or set "
            "KAFKA_BOOTSTRAP_SERVERS to another (`kiln broker up` starts one for development)"
        )

    def client_options(self) -> dict[str, Any]:
        """What every client gets. Reads the certificate files: call it for each client, so that a renewal is seen.

        Raises ConnectionSettingsError where a certificate file cannot be used.
        """
        password = self.sasl_plain_password
        return {
            "bootstrap_servers": self.bootstrap_servers.split(","),
            "client_id": self.client_id,
            "request_timeout_ms": self.request_timeout_ms,
            "retry_backoff_ms": self.retry_backoff_ms,
            "metadata_max_age_ms": self.metadata_max_age_ms,
            "connections_max_idle_ms": self.connections_max_idle_ms,
            "security_protocol": self.security_protocol,
            "ssl_context": self._ssl_context(),
            "sasl_mechanism": self.sasl_mechanism,
            "sasl_plain_username": self.sasl_plain_username,
            "sasl_plain_password": password.get_secret_value() if password else None,
        }

    def _ssl_context(self) -> ssl.SSLContext | None:
        if not self._encrypted:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ssl_cafile)
            if self.ssl_certfile and self.ssl_keyfile:
                context.load_cert_chain(self.ssl_certfile, self.ssl_keyfile)
        except OSError as error:  # ssl.SSLError is one
            raise ConnectionSettingsError(
                f"a file of KAFKA_SSL_CAFILE, KAFKA_SSL_CERTFILE or KAFKA_SSL_KEYFILE cannot be used: {error}"
            ) from error
        return context
