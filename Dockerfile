# pulsarscope in a container: docker build -t pulsarscope .
#   captures:  docker run --rm -v "$PWD:/work:ro" pulsarscope diagnose mine.pcap
#   a pipe:    tcpdump -i eth0 -U -w - port 6650 | docker run --rm -i pulsarscope live -i -
#   live:      docker run --rm -it --network host --user 0 --cap-drop ALL --cap-add NET_RAW pulsarscope live -i eth0
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv binutils
COPY . /source
RUN python3 -m venv /opt/pulsarscope \
 && /opt/pulsarscope/bin/pip install --no-cache-dir --no-compile /source \
 && /opt/pulsarscope/bin/pip uninstall --yes setuptools pip \
 && find /opt/pulsarscope -name tests -type d -prune -exec rm -rf {} + \
 && find /opt/pulsarscope -name '*.so*' -exec strip --strip-unneeded {} +

FROM debian:bookworm-slim
RUN apt-get update && apt-get install --yes --no-install-recommends python3 && rm -rf /var/lib/apt/lists/* /usr/share/doc
COPY --from=build /opt/pulsarscope /opt/pulsarscope
ENV PATH=/opt/pulsarscope/bin:$PATH PYTHONDONTWRITEBYTECODE=1
RUN useradd --system --uid 10001 pulsarscope
USER pulsarscope
WORKDIR /work
ENTRYPOINT ["pulsarscope"]
CMD ["--help"]
