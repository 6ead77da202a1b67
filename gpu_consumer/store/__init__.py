"""Artifacts and outcomes in object storage: s3:// and file://, one contract."""
