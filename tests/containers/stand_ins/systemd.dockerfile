# A machine with systemd, the program below /opt/kafka-mirror, and a user for it.
FROM localhost/kafka-mirror:latest
USER 0
RUN apt-get update && apt-get install -y --no-install-recommends procps systemd && rm -rf /var/lib/apt/lists/* \
 && useradd --system --home-dir /nonexistent kafka-mirror
ENTRYPOINT []
CMD ["/lib/systemd/systemd"]
STOPSIGNAL SIGRTMIN+3
