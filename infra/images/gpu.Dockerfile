# syntax=docker/dockerfile:1
# A GPU consumer. In the repository's root:
#   docker build -f infra/images/gpu.Dockerfile --target cuda -t promptkiln-gpu:0.1.0 .
#   docker build -f infra/images/gpu.Dockerfile --target cpu -t promptkiln-cpu:0.1.0 .
# CUDA comes with torch's wheels and the driver from the host, so that no image of NVIDIA's is beneath. Models are a
# volume at /models, or an image of their own (models.Dockerfile). The target `cpu` has the tiny ones in it.

FROM python:3.11-slim-bookworm AS locked
WORKDIR /build
COPY infra/bootstrap.lock infra/images/build.lock ./
RUN python -m venv /tools \
    && /tools/bin/pip install --no-cache-dir --require-hashes -r bootstrap.lock -r build.lock
# Gigabytes that change only with the lock, so that a change of ours sends only ours.
COPY infra/images/gpu.lock ./
RUN python -m venv --without-pip /opt/kiln \
    && /tools/bin/uv pip install --no-cache --compile-bytecode --python /opt/kiln/bin/python \
        --require-hashes -r gpu.lock

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

FROM python:3.11-slim-bookworm AS consumer
RUN groupadd --gid 10001 kiln \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin kiln
COPY --from=locked /opt/kiln /opt/kiln
COPY --from=own /opt/own /opt/own
ENV PATH=/opt/own/bin:/opt/kiln/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/opt/own \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    HF_HUB_OFFLINE=1 \
    KILN_GPU_MODELS_DIR=/models
USER 10001:10001
# Alive while models load, and for as long as that takes: what loads answers, too.
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=6 \
    CMD ["python", "-m", "infra.images.healthcheck", "8082"]
ENTRYPOINT ["kiln"]
CMD ["gpu-consumer", "run"]

FROM consumer AS tiny
WORKDIR /tmp/models
RUN kiln models make-tiny . && kiln models add-shapes .

FROM consumer AS cpu
COPY --from=tiny /tmp/models /models
ENV KILN_GPU_DEVICE=cpu

FROM consumer AS cuda
# Which cards is said where the container is started.
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
VOLUME /models
