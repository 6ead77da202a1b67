# syntax=docker/dockerfile:1
# Admission, the gate, the external scaler and the command line: no torch, no card. In the repository's root:
#   docker build -f infra/images/services.Dockerfile -t promptkiln:0.1.0 .

FROM python:3.11-slim-bookworm AS locked
WORKDIR /build
COPY infra/bootstrap.lock infra/images/build.lock ./
RUN python -m venv /tools \
    && /tools/bin/pip install --no-cache-dir --require-hashes -r bootstrap.lock -r build.lock
# Changes only with the lock, so that a change of ours sends only ours.
COPY infra/images/services.lock ./
RUN python -m venv --without-pip /opt/kiln \
    && /tools/bin/uv pip install --no-cache --compile-bytecode --python /opt/kiln/bin/python \
        --require-hashes -r services.lock

FROM locked AS own
COPY pyproject.toml README.md LICENSE ./
COPY schemas schemas
COPY admission admission
COPY streams streams
COPY gpu_consumer gpu_consumer
COPY infra infra
RUN /tools/bin/hatchling build -t wheel -d dist \
    && /tools/bin/uv pip install --no-cache --compile-bytecode --python /opt/kiln/bin/python \
        --no-index --no-deps --target /opt/own dist/*.whl

FROM python:3.11-slim-bookworm AS services
# /rendered: where a volume is mounted for what `kiln infra render` writes. It takes the owner of this folder.
RUN groupadd --gid 10001 kiln \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin kiln \
    && install -d -o 10001 -g 10001 /rendered
COPY --from=locked /opt/kiln /opt/kiln
COPY --from=own /opt/own /opt/own
ENV PATH=/opt/own/bin:/opt/kiln/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/opt/own \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp
USER 10001:10001
# The port of admission; another service's is given where it is started.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=6 \
    CMD ["python", "-m", "infra.images.healthcheck", "8081"]
ENTRYPOINT ["kiln"]
CMD ["admission", "run"]
