# Stands in for prom/prometheus.
FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends prometheus && rm -rf /var/lib/apt/lists/*
RUN install -d -o nobody -g nogroup /prometheus
USER nobody
VOLUME ["/prometheus"]
WORKDIR /prometheus
EXPOSE 9090
ENTRYPOINT ["/usr/bin/prometheus"]
