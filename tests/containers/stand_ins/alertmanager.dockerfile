# Stands in for prom/alertmanager.
FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends prometheus-alertmanager && rm -rf /var/lib/apt/lists/*
RUN install -d -o nobody -g nogroup /alertmanager
USER nobody
VOLUME ["/alertmanager"]
WORKDIR /alertmanager
EXPOSE 9093
ENTRYPOINT ["/usr/bin/prometheus-alertmanager"]
