"""How every process of ours reaches an S3 store: GPU consumers to write, commands to fetch what results name."""

from typing import Any, Literal, TypeAlias

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

Client: TypeAlias = Any  # boto3 makes its classes at run time


class S3Settings(BaseSettings):
    """Where the server is and how long it may be silent. boto3's own chain finds the credentials."""

    model_config = SettingsConfigDict(env_prefix="KILN_STORE_", frozen=True)

    endpoint_url: str | None = Field(
        None, pattern=r"^https?://\S+$", description="another S3 server than Amazon's, such as http://minio:9000"
    )
    region: str | None = Field(None, description="the bucket's region; else AWS_REGION or the profile decides")
    addressing_style: Literal["path", "virtual", "auto"] = Field(
        "auto", description="path where the name bucket.host does not resolve (most servers inside a cluster)"
    )
    connect_timeout_seconds: float = Field(2, gt=0, le=60, description="to open one connection")
    read_timeout_seconds: float = Field(10, gt=0, le=300, description="of silence within one attempt")


def s3_client(settings: S3Settings, **options: Any) -> Client:
    """Of a new session: credentials are looked up afresh in the environment and on disk. `options`: more of
    botocore.config.Config."""
    import boto3  # takes a second
    from botocore.config import Config

    config = Config(
        connect_timeout=settings.connect_timeout_seconds,
        read_timeout=settings.read_timeout_seconds,
        signature_version="s3v4",
        s3={"addressing_style": settings.addressing_style},
        **options,
    )
    session = boto3.session.Session(region_name=settings.region)
    return session.client("s3", endpoint_url=settings.endpoint_url, config=config)
