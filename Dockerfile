# Dragoman in a container: built in one stage, run in another that has neither pip nor a compiler.
# A release pins BASE_IMAGE by digest; both stages need the same Python.
ARG BASE_IMAGE=python:3.13-slim-bookworm

FROM ${BASE_IMAGE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
RUN python -m venv /opt/dragoman
COPY pyproject.toml README.md LICENSE ./
COPY proxy ./proxy
# Compiled now, since nothing can be written at run time. pip has no business there.
RUN /opt/dragoman/bin/pip install . \
    && /opt/dragoman/bin/python -m compileall -q /opt/dragoman/lib \
    && /opt/dragoman/bin/pip uninstall --yes pip

FROM ${BASE_IMAGE}
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Dragoman" \
      org.opencontainers.image.description="A reverse proxy that translates between LLM protocols" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# The base's own pip, which the environment above doesn't use.
RUN python -m pip uninstall --yes pip
COPY --from=build /opt/dragoman /opt/dragoman
# The MALLOC_ settings keep freed memory instead of giving it back and faulting it in again for every stream.
ENV PATH=/opt/dragoman/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    MALLOC_TRIM_THRESHOLD_=67108864 \
    MALLOC_TOP_PAD_=1048576 \
    MALLOC_MMAP_THRESHOLD_=33554432
USER 65532:65532
# Whoever reaches it may use it, so it listens on loopback only: run it in the network of what asks it, as a sidecar is.
EXPOSE 8080 9090
ENTRYPOINT ["dragoman"]
CMD ["serve"]
