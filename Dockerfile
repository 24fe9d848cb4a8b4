FROM python:3.11-slim-bookworm
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/*
# Logins that need more packages: --build-arg EXTRAS=kerberos,msk
ARG EXTRAS=
RUN case "$EXTRAS" in *kerberos*) apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev libkrb5-dev \
 && rm -rf /var/lib/apt/lists/* ;; esac
WORKDIR /opt/kafka-mirror
COPY pyproject.toml README.md LICENSE ./
COPY mirror mirror
COPY metrics metrics
COPY dashboards dashboards
COPY app app
RUN pip install --no-cache-dir ".${EXTRAS:+[$EXTRAS]}" \
 && useradd --system --uid 10001 --create-home --home-dir /var/lib/kafka-mirror mirror
ENV XDG_CACHE_HOME=/opt/kafka-mirror/cache
RUN install -d -o mirror /opt/kafka-mirror/cache
USER mirror
RUN kafka-mirror prepare
VOLUME /var/lib/kafka-mirror
WORKDIR /var/lib/kafka-mirror
EXPOSE 9404
HEALTHCHECK --interval=10s --start-period=60s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:9404/ready', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["kafka-mirror"]
CMD ["--help"]
