# A node as a container: docker build -t heliograph . && docker run -p 1883:1883 -v heliograph:/var/lib/heliograph heliograph
# Nothing but the two base images and packages of the package index is fetched. docs/install.md says how it is used.
ARG PYTHON=3.11

# Empty, unless the wheel is there already: --build-context wheels=DIR, as a release does.
FROM scratch AS wheels

# With a C compiler, which the protocol packages are compiled by.
FROM python:${PYTHON}-bookworm AS build
# Extras to install, with commas between: pipeline,sinks,jre
ARG EXTRAS=
WORKDIR /build
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE constraints.txt ./
COPY scripts/compiling scripts/compiling
COPY src src
COPY --from=wheels / wheels/
RUN { ls wheels/heliograph-*.whl >/dev/null 2>&1 || pip wheel --no-cache-dir --no-deps --wheel-dir wheels .; } \
    && python -m venv /opt/heliograph \
    && wheel="$(echo /build/wheels/heliograph-*.whl)" \
    && /opt/heliograph/bin/pip install --no-cache-dir -c constraints.txt "${wheel}${EXTRAS:+[${EXTRAS}]}" \
    && /opt/heliograph/bin/heliograph --version

FROM python:${PYTHON}-slim-bookworm
LABEL org.opencontainers.image.title="Heliograph" \
      org.opencontainers.image.description="An MQTT platform that keeps every message as a replayable stream" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/heliograph /opt/heliograph
# The lowest layer of the configuration: a file, a variable or an option overrides it.
RUN useradd --system --uid 10001 --user-group --home-dir /var/lib/heliograph --shell /usr/sbin/nologin heliograph \
    && install -d -m 0700 -o heliograph -g heliograph /var/lib/heliograph \
    && install -d -m 0755 /etc/heliograph \
    && printf '%s\n' 'listeners.tcp.default.bind = "0.0.0.0:1883"' \
        'dashboard.listeners.http.bind = "0.0.0.0:18083"' \
        'authentication = [{ mechanism = password_based, backend = built_in_database }]' > /etc/heliograph/base.hocon
ENV PATH="/opt/heliograph/bin:${PATH}"
USER 10001:10001
# Data is in ./data, where every command looks for it.
WORKDIR /var/lib/heliograph
VOLUME /var/lib/heliograph
EXPOSE 1883 8883 8083 8084 18083
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 \
    CMD ["heliograph", "ctl", "status"]
ENTRYPOINT ["heliograph"]
CMD ["start", "--base", "/etc/heliograph/base.hocon"]
