# The image of kafka-mirror: Python, a small Java runtime, and Spark without what a local master never loads.
#   docker build -t kafka-mirror .
# Logins that need more packages: --build-arg EXTRAS=kerberos,msk
FROM debian:bookworm-slim AS python
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 ca-certificates \
 && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/*
ARG EXTRAS=
RUN case "$EXTRAS" in *kerberos*) apt-get update \
 && apt-get install -y --no-install-recommends libgssapi-krb5-2 \
 && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* ;; esac

FROM debian:bookworm-slim AS java
RUN mkdir -p /usr/share/man/man1 && apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jdk-headless binutils
COPY docker/java-modules .
# The plugin system-modules writes a class in an order that differs between two runs.
RUN jlink --compress=2 --strip-debug --no-header-files --no-man-pages --output /opt/kafka-mirror/java \
      --disable-plugin system-modules \
      --add-modules "$(grep -v '^#' java-modules | paste -sd,)"

FROM python AS packages
ARG EXTRAS=
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3-venv binutils \
      $(case "$EXTRAS" in *kerberos*) echo gcc libc6-dev python3-dev libkrb5-dev ;; esac)
# Modules are compiled without the time of their source: two builds of a commit are equal. For the same reason there is no
# class archive of Java.
ENV VENV=/opt/kafka-mirror/venv SOURCE_DATE_EPOCH=1
WORKDIR /src
COPY pyproject.toml constraints.txt ./
COPY docker docker
RUN python3 -m venv "$VENV" \
 && python3 docker/dependencies.py "$EXTRAS" >wanted \
 && "$VENV/bin/pip" install --no-cache-dir -c constraints.txt -r wanted
COPY README.md LICENSE ./
COPY mirror mirror
COPY metrics metrics
COPY dashboards dashboards
COPY app app
RUN "$VENV/bin/pip" install --no-cache-dir --no-deps . \
 && docker/remove-unused "$VENV/lib/python3.11/site-packages"

FROM python
COPY --from=java /opt/kafka-mirror/java /opt/kafka-mirror/java
COPY --from=packages /opt/kafka-mirror/venv /opt/kafka-mirror/venv
# Any user id in group 0 may run it, with or without a passwd entry.
RUN install -d -m 0775 /var/lib/kafka-mirror
# Nothing is written to the cache folder, so a stop does not wait for Spark's class archive.
ENV PATH=/opt/kafka-mirror/venv/bin:$PATH \
    JAVA_HOME=/opt/kafka-mirror/java \
    XDG_CACHE_HOME=/opt/kafka-mirror/cache \
    HOME=/var/lib/kafka-mirror \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
LABEL org.opencontainers.image.title="kafka-mirror" \
      org.opencontainers.image.description="Replicates Kafka topics between clusters and shows whether it is safe to fail over" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 10001:0
VOLUME /var/lib/kafka-mirror
WORKDIR /var/lib/kafka-mirror
EXPOSE 9404 8501
HEALTHCHECK --interval=10s --start-period=60s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:9404/ready', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["kafka-mirror"]
CMD ["--help"]
