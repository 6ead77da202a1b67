# syntax=docker/dockerfile:1
# The S3 server of compose.yaml, the same that the tests run, over a folder. For development: it has one user.
FROM golang:1.25-bookworm AS build
ENV CGO_ENABLED=0
RUN go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

FROM alpine:3.22 AS store
# A folder of the root is a bucket. A new volume starts with what is here.
RUN adduser -D -H -u 10001 kiln && mkdir -p /objects/promptkiln /iam && chown -R 10001:10001 /objects /iam
COPY --from=build /go/bin/versitygw /usr/local/bin/versitygw
USER 10001:10001
VOLUME ["/objects", "/iam"]
EXPOSE 7070
HEALTHCHECK --interval=5s --timeout=3s --retries=12 CMD ["wget", "-q", "-O", "/dev/null", "http://127.0.0.1:7070/health"]
ENTRYPOINT ["versitygw", "--port", ":7070", "--health", "/health", "--iam-dir", "/iam", "posix", "/objects"]
