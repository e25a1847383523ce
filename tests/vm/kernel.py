"""What a guest boots from: Debian's kernel as tools/setup --vm unpacks it, and an initial file system for it."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent
REMEDY = "run tools/setup --vm"
PROGRAMS = ["qemu-system-x86_64", "setpriv", "busybox", "cpio", "modprobe", "ip", "rdma"]
# Loaded in this order, each with what it needs. rdma_rxe asks for the algorithm crc32, not for its module.
MODULES = ["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay", "veth", "bridge", "crc32_generic",
           "ib_uverbs", "rdma_rxe", "rdma_ucm", "sch_netem", "sch_tbf"]


class Missing(Exception):
    """This machine lacks something; says what, and the remedy."""


def find(name: str) -> str | None:
    """An administrator's programs are found by everybody."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def program(name: str) -> str:
    return find(name) or name


def require_programs() -> None:
    missing = [name for name in PROGRAMS if find(name) is None]
    if missing:
        raise Missing(f"not installed: {', '.join(missing)}: {REMEDY}")


def cache() -> Path:
    """The folder that tools/setup --vm fills."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("TALLY_VM_CACHE") or home / "tally" / "vm")


class Kernel:
    """The newest one in the cache."""

    def __init__(self):
        def version(folder: Path) -> list[int]:
            return [int(number) for number in re.findall(r"\d+", folder.name)]

        folders = sorted(cache().glob("linux-image-*"), key=version)
        if not folders:
            raise Missing(f"there is no kernel in {cache()}: {REMEDY}")
        self.folder = folders[-1]
        self.release = self.folder.name.removeprefix("linux-image-")
        self.image = self.folder / "boot" / f"vmlinuz-{self.release}"
        if not self.image.is_file():
            raise Missing(f"{self.image} is not there: remove {self.folder}, then {REMEDY}")

    def modules(self) -> list[Path]:
        """Files in the order in which they can be loaded."""
        asked = subprocess.run(
            [program("modprobe"), "--all", "--show-depends", "--dirname", self.folder,
             "--set-version", self.release, *MODULES], capture_output=True, text=True)
        if asked.returncode != 0:
            raise Missing(f"{asked.stderr.strip()}: remove {self.folder}, then {REMEDY}")
        lines = [line.split() for line in asked.stdout.splitlines()]
        return [Path(line[1]) for line in {tuple(words): words for words in lines} if line[0] == "insmod"]


def busybox() -> Path:
    """Debian's other package of it needs libraries, which the initial file system has not."""
    path = Path(program("busybox"))
    if b"ld-linux" in path.read_bytes()[:4096]:
        raise Missing(f"{path} is not a static one: {REMEDY}")
    return path


def initial_file_system(kernel: Kernel, files: dict[str, str]) -> IO[bytes]:
    """A file without a name, in which these files stand at the root; it ends with its descriptor."""
    with tempfile.TemporaryDirectory(prefix="tally-vm-") as folder:
        root = Path(folder)
        (root / "bin").mkdir()
        (root / "modules").mkdir()
        shutil.copy(busybox(), root / "bin" / "busybox")
        shutil.copy(HERE / "init.sh", root / "init")
        (root / "init").chmod(0o755)
        modules = kernel.modules()
        for module in modules:
            shutil.copy(module, root / "modules")
        (root / "modules" / "order").write_text("".join(f"{module.name}\n" for module in modules))
        for name, text in files.items():
            (root / name).write_text(text)
        return packed(root)


def packed(root: Path) -> IO[bytes]:
    archive = tempfile.TemporaryFile(prefix="tally-vm-")
    names = "\0".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    subprocess.run([program("cpio"), "--create", "--format=newc", "--null", "--quiet", "--owner=+0:+0"],
                   cwd=root, input=names.encode(), stdout=archive, check=True)
    return archive
