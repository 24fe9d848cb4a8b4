# Stands in for apache/kafka: settings from KAFKA_*, the same folders, user and console programs.
FROM debian:bookworm-slim
RUN mkdir -p /usr/share/man/man1 && apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/*
COPY jars /opt/kafka/libs
COPY kafka-run /opt/kafka/bin/kafka-run
RUN useradd --uid 1000 --create-home appuser \
 && for name in broker-api-versions console-consumer get-offsets producer-perf-test; do \
      ln -s kafka-run "/opt/kafka/bin/kafka-$name.sh"; done \
 && chmod 0755 /opt/kafka/bin/kafka-run \
 && install -d -o appuser /opt/kafka/config /var/lib/kafka/data
USER appuser
VOLUME ["/var/lib/kafka/data"]
EXPOSE 9092
CMD ["/opt/kafka/bin/kafka-run"]
