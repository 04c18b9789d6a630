# Posthorn as a container: docker build -t posthorn . (see docs/install.md)
#
# Built with Node.js 24 and a compiler; what runs has neither npm nor compiler, and no root.

FROM docker.io/library/node:24-bookworm-slim AS build
# sqlite3 is compiled from its sources, with the headers of this very Node.js: no binary from elsewhere.
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 make g++ \
 && rm -rf /var/lib/apt/lists/*
ENV npm_config_nodedir=/usr/local npm_config_build_from_source=true npm_config_update_notifier=false
WORKDIR /opt/posthorn
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json LICENSE ./
COPY migrations migrations
# Some of it is built in, some is read when the program runs.
COPY config config
COPY docs/openapi.json docs/openapi.json
COPY src src
RUN npm run --silent build \
 && npm run --silent sbom > sbom.json \
 && npm prune --omit=dev --no-audit --no-fund \
 # Of what was compiled only the result is needed, of packages only what runs.
 && find node_modules/sqlite3 -depth \( -name deps -o -name obj -o -name obj.target -o -name '*.o' -o -name '*.a' \) -exec rm -rf {} + \
 && find node_modules dist \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' -o -name '*.md' \) -delete \
 && rm -rf dist/.built dist/.tsbuildinfo src/bin/ready.mjs src/bin/pack-client.mjs src/bin/client-types.mjs src/bin/sbom.mjs \
 && find src -mindepth 1 -maxdepth 1 ! -name bin -exec rm -rf {} + \
 && rm -rf docs migrations tsconfig.json .npmrc \
 && strip /usr/local/bin/node

FROM docker.io/library/debian:bookworm-slim
# docker build --build-arg REVISION=$(git rev-parse HEAD) --build-arg VERSION=$(git describe --tags --always)
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Posthorn" \
      org.opencontainers.image.description="Self-hosted transactional e-mail" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
RUN groupadd --system --gid 8025 posthorn \
 && useradd --system --uid 8025 --gid 8025 --home-dir /var/lib/posthorn --shell /usr/sbin/nologin posthorn \
 && install -d -o posthorn -g posthorn -m 0750 /var/lib/posthorn \
 # A volume that is mounted here gets this owner.
 && install -d -o posthorn -g posthorn -m 0700 /var/backups/posthorn \
 && ln -s /opt/posthorn/src/bin/posthorn.cjs /usr/local/bin/posthorn
COPY --from=build /usr/local/bin/node /usr/local/bin/node
# With sbom.json, the list of its packages, and with package-lock.json, from which scanners make their own.
COPY --from=build /opt/posthorn /opt/posthorn
COPY LICENSE README.md CHANGELOG.md /opt/posthorn/
# Node.js 24 by itself lets young objects take 64 MB and more, for no speed that could be measured (docs/performance.md).
# The allocator by itself keeps eight arenas for each processor, whose holes add up; with two it takes 20 MB less and is as fast.
ENV NODE_ENV=production \
    NODE_OPTIONS=--max-semi-space-size=16 \
    MALLOC_ARENA_MAX=2 \
    MALLOC_MMAP_THRESHOLD_=4194304 \
    MALLOC_TRIM_THRESHOLD_=16777216 \
    POSTHORN_DATA_DIR=/var/lib/posthorn \
    POSTHORN_HTTP__HOST=0.0.0.0 \
    POSTHORN_SMTP__SUBMISSION__HOST=0.0.0.0 \
    POSTHORN_SMTP__MX__PORT=25 \
    POSTHORN_SMTP__SUBMISSION__PORT=587 \
    POSTHORN_SMTP__SUBMISSION__TLS_PORT=465
USER posthorn
WORKDIR /var/lib/posthorn
VOLUME /var/lib/posthorn
EXPOSE 8025 25 587 465
STOPSIGNAL SIGTERM
# The start may have to migrate first.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10m CMD ["node", "/opt/posthorn/src/bin/health.mjs"]
ENTRYPOINT ["node", "/opt/posthorn/src/bin/posthorn.cjs"]
CMD ["serve"]
