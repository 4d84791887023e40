"""Build the image of the Dockerfile: `python -m tests.image.build`.

The base is made of Debian's packages, since no registry of images is needed for that. It is what debian:trixie-slim is,
with Debian's Python in it.
"""

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from proxy import __version__
from tests.image.podman import IMAGE, ROOT, command, podman

BASE = "localhost/dragoman-base"
_SUITE = "trixie"
_PACKAGES = "python3,python3-venv,ca-certificates"
# A machine may reach its registries through a proxy that signs by an authority of its own.
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")


def make_base() -> None:
    """Nothing if there is one already."""
    if subprocess.run(command("image", "exists", BASE), check=False).returncode == 0:
        return
    if shutil.which("mmdebstrap") is None:
        raise SystemExit("mmdebstrap is needed to make a base image of Debian's packages")
    options = [
        "--quiet",
        "--variant=apt",
        f"--include={_PACKAGES}",
        "--dpkgopt=force-unsafe-io",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        '--aptopt=Acquire::Languages "none"',
    ]
    with TemporaryDirectory() as folder:
        archive = f"{folder}/base.tar"
        environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["mmdebstrap", *options, _SUITE, archive], check=True, env=environ)
        podman("import", "--quiet", archive, BASE)


def build() -> None:
    """With the network of the machine, to reach its registries."""
    with TemporaryDirectory() as folder:
        Path(folder, "pip.conf").write_text("[global]\ncert = /run/authorities.crt\n")
        mounts = [f"--volume={folder}/pip.conf:/etc/pip.conf:ro", f"--volume={_AUTHORITIES}:/run/authorities.crt:ro"]
        arguments = [f"--build-arg=BASE_IMAGE={BASE}", f"--build-arg=VERSION={__version__}"]
        line = command("build", "--quiet", "--isolation=chroot", "--network=host", "--tag", IMAGE)
        subprocess.run([*line, *mounts, *arguments, str(ROOT)], check=True)


if __name__ == "__main__":
    make_base()
    build()
