# The image of the manager. make release makes the same one without a container engine.
ARG GO_VERSION=1.26
FROM --platform=$BUILDPLATFORM golang:${GO_VERSION} AS build
ARG VERSION=v0.1.0-dev
ARG TARGETOS
ARG TARGETARCH
WORKDIR /src
COPY . .
RUN go run -C tools/release . -version="$VERSION" -platforms="$TARGETOS/$TARGETARCH" -root-filesystem=/root-filesystem

FROM scratch
COPY --from=build /root-filesystem/ /
WORKDIR /
ENV PATH=/
USER 65532:65532
ENTRYPOINT ["/manager"]
