# syntax=docker/dockerfile:1
# A folder of models as an image that is mounted, and never run: `cluster.models.image` of pools.yaml. The context is the
# folder itself:
#   docker build -f infra/images/models.Dockerfile -t models:2026-01 /srv/models
FROM scratch
COPY --chown=10001:10001 . /
USER 10001:10001
