"""Settings of the development broker. The environment is read here and nowhere else in this package."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class BrokerSettings(BaseSettings):
    """Where the broker lives and how patient we are with it. Environment variables have the prefix KILN_."""

    model_config = SettingsConfigDict(env_prefix="KILN_", frozen=True)

    home: Path = Field(Path(".kiln"), description="Folder of all development state; the broker uses home/broker.")
    cache: Path = Field(
        Path("~/.cache/promptkiln"), description="Folder of what is downloaded once; the jars lie in cache/kafka."
    )
    maven_mirror: str | None = Field(
        None, description="Base URL of a Maven repository to use in place of Maven Central."
    )
    download_connections: int = Field(4, ge=1, le=16, description="Jars fetched at the same time.")
    download_attempts: int = Field(4, ge=1, le=20, description="Tries a jar before giving up.")
    download_stall_seconds: float = Field(
        60, gt=0, le=600, description="Seconds without a byte after which a try has failed."
    )
    broker_heap_mib: int = Field(256, ge=160, le=16384, description="Java heap of each broker process, MiB.")
    broker_ready_seconds: float = Field(
        120, gt=0, le=900, description="Seconds that `up` waits for the first acknowledged produce."
    )
    broker_stop_seconds: float = Field(
        30, gt=0, le=600, description="Seconds that `down` waits for a clean stop before it kills."
    )

    @property
    def broker_directory(self) -> Path:
        """Absolute, since the broker's command line is how a process is recognised as ours."""
        return self.home.expanduser().absolute() / "broker"

    @property
    def jars_directory(self) -> Path:
        return self.cache.expanduser().absolute() / "kafka"
