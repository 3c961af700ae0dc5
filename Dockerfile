# The sidecar and its demo in one image; runs as a user without rights.
FROM python:3.12-slim
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY sidecar ./sidecar
COPY addons ./addons
COPY dashboards ./dashboards
COPY docs/runbooks ./docs/runbooks
RUN pip install --no-cache-dir . && useradd --create-home --uid 10001 sidecar
USER sidecar
WORKDIR /home/sidecar
EXPOSE 8080 9464
ENTRYPOINT ["sidecar"]
CMD ["run", "--help"]
