# The image of pods of the target kube; `make image` makes the same without a container engine.
# syntax=docker/dockerfile:1
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -o /windtunnel ./cmd/windtunnel && mkdir -m 1777 /empty

FROM scratch
COPY --from=build /windtunnel /windtunnel
COPY --from=build --chmod=1777 /empty /tmp
USER 65532:65532
ENV PATH=/
ENTRYPOINT ["/windtunnel"]
