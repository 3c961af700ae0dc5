# Two images: `sidecar` (the last, so the default) runs as a user without rights; `redirect` loads docs/deploy/pod.nft once.
#   docker build -t llm-sidecar:0.1.0 .
#   docker build -t llm-sidecar-redirect:0.1.0 --target redirect .
# The base is pinned by its tag; pin it by digest, too, where you build (docker buildx imagetools inspect IMAGE).
FROM python:3.12.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY sidecar ./sidecar
COPY dashboards ./dashboards
COPY docs/runbooks ./docs/runbooks
RUN python -m venv /opt/llm-sidecar && /opt/llm-sidecar/bin/pip install --no-cache-dir '.[envoy]'

# Changing a network namespace's rules needs NET_ADMIN and root in it. This image does nothing else, and ends.
FROM python:3.12.11-slim-bookworm AS redirect
RUN apt-get update && apt-get install --yes --no-install-recommends nftables && rm -rf /var/lib/apt/lists/*
COPY docs/deploy/pod.nft /etc/llm-sidecar/redirect.nft
ENTRYPOINT ["nft"]
CMD ["-f", "/etc/llm-sidecar/redirect.nft"]

FROM python:3.12.11-slim-bookworm AS sidecar
COPY --from=build /opt/llm-sidecar /opt/llm-sidecar
ENV PATH=/opt/llm-sidecar/bin:$PATH PYTHONUNBUFFERED=1
# The number is what docs/deploy/pod.nft lets through unredirected. New volumes at these folders belong to it.
RUN useradd --create-home --uid 10001 sidecar \
    && install --directory --owner sidecar --group sidecar /authority /certificate /state /home/sidecar/.mitmproxy
USER 10001:10001
WORKDIR /home/sidecar
EXPOSE 8080 9464
ENTRYPOINT ["sidecar"]
CMD ["run", "--help"]
