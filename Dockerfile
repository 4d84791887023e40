# Dragoman in a container: built in one stage; what runs is the interpreter, its libraries and the environment, and nothing
# else: no shell, no package manager, no pip. Any base with Python 3.11 or newer on Debian will do. A release pins it:
#   docker build --build-arg BASE_IMAGE=python:3.13-slim-trixie@sha256:… -t dragoman .
ARG BASE_IMAGE=python:3.13-slim-trixie

FROM ${BASE_IMAGE} AS build
# BuildKit's list of what is in the image (--sbom=true) is made from this stage, where the packages can still be told.
ARG BUILDKIT_SBOM_SCAN_STAGE=true
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# strip, whose version does not matter: nothing of it gets into the image.
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends binutils \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
RUN python3 -m venv /opt/dragoman
COPY pyproject.toml README.md LICENSE ./
COPY proxy ./proxy
RUN /opt/dragoman/bin/pip install --no-compile . \
    && /opt/dragoman/bin/pip uninstall --yes pip

# /image is what becomes of it: the interpreter, its standard library less what only developers use, the environment, and
# each shared library that any of these was linked with, without what debuggers read. Compiled now, since nothing can be
# written at run time, and never compared with the sources, whose times may be changed by whoever packs the layers.
RUN mkdir -p /image/etc/dragoman /image/etc/ssl/certs \
    && for folder in /lib /lib64; do \
         if [ -L "${folder}" ]; then mkdir -p "/image/usr${folder}" && cp -a "${folder}" /image; fi; \
       done \
    && interpreter="$(readlink -f /opt/dragoman/bin/python3)" \
    && library="$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
    && cp -a --parents "${interpreter}" "$(command -v python3)" "${library}" /opt/dragoman /image \
    && find "/image${library}" -regextype egrep \( -name __pycache__ -o -regex "/image${library}/(\
(site|dist)-packages|test|unittest|xmlrpc|curses|idlelib|tkinter|turtledemo|lib2to3|ensurepip|pydoc_data|config-.*|\
lib-dynload/(_test|_tkinter|_dbm|_gdbm|_curses|_codecs_(cn|hk|jp|kr|tw|iso2022)|readline).*)" \) -prune -exec rm -rf {} + \
    && find /image/opt/dragoman/lib -regextype egrep -type f -regex '.*\.(pyi|pyx|pxd|pxi|c|h|hash)' -delete \
    && find "/image${library}" "/image${interpreter}" /image/opt/dragoman -type f \
         \( -name '*.so*' -o -path "/image${interpreter}" \) -exec ldd {} + -exec strip --strip-unneeded {} + >/tmp/linked \
    && ! grep 'not found' /tmp/linked \
    && sed -n 's/^[^/]*\(\/[^ ]*\) (0x.*/\1/p' /tmp/linked >/tmp/libraries \
    && sort -u -o /tmp/libraries /tmp/libraries \
    && xargs --arg-file=/tmp/libraries cp -L --parents --target-directory=/image \
    && cp /etc/ld.so.cache /image/etc/ \
    && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ \
    && echo 'dragoman:x:65532:65532::/:/nonexistent' >/image/etc/passwd \
    && echo 'dragoman:x:65532:' >/image/etc/group \
    && python3 -m compileall -q --invalidation-mode unchecked-hash -s /image "/image${library}" /image/opt/dragoman/lib

FROM scratch
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Dragoman" \
      org.opencontainers.image.description="A reverse proxy that translates between LLM protocols" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /image /
# The MALLOC_ settings keep freed memory instead of giving it back and faulting it in again for every stream.
ENV PATH=/opt/dragoman/bin \
    LANG=C.UTF-8 \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    MALLOC_TRIM_THRESHOLD_=67108864 \
    MALLOC_TOP_PAD_=1048576 \
    MALLOC_MMAP_THRESHOLD_=33554432
USER 65532:65532
EXPOSE 8080 9090
ENTRYPOINT ["dragoman"]
# Expects a configuration to be mounted there. Only one with tenants may listen on an address that others reach.
CMD ["serve", "--config", "/etc/dragoman"]
