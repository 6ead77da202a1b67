"""Which store a URL means."""

from urllib.parse import urlsplit

from gpu_consumer.store.base import ObjectStore, StoreRefused, StoreSettings, directory_of, is_key
from gpu_consumer.store.file import FileStore


def open_store(url: str, settings: StoreSettings) -> ObjectStore:
    """The store at file:///directory or s3://bucket/prefix. Connects to nothing yet; `probe` does.

    Raises StoreRefused for any other URL.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        return FileStore(directory_of(url), leftover_age_seconds=settings.leftover_age_seconds)
    if parts.scheme == "s3":
        prefix = parts.path.strip("/")
        if not parts.netloc or parts.query or parts.fragment or (prefix and not is_key(prefix)):
            raise StoreRefused(f"{url} is not s3://BUCKET/PREFIX with a prefix of [0-9a-zA-Z._-] and single slashes")
        from gpu_consumer.store.s3 import S3Store, connector  # boto3 takes a second to import

        return S3Store(parts.netloc, prefix, settings, connector(settings))
    raise StoreRefused(f"{url} is no store; set KILN_STORE_URL to file:///DIRECTORY or s3://BUCKET/PREFIX")
