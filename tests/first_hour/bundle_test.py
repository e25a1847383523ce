#!/usr/bin/env python3
"""The bundle of tools/bundle: its programs run where there is nothing but the C library, and from any folder.

usage: bundle_test.py BUILD [CASE...]        BUILD: a build folder with the programs

In tier soak ($TALLY_TEST_TIER) it also compiles the Python package from the bundle.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from lib import python_part, shared_objects, sources  # noqa: E402

BUILD = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "build"
os.environ.pop("LD_LIBRARY_PATH", None)  # Meson's names the build folder
SKIPPED = 77
TIMEOUT = 1800 if os.environ.get("TALLY_TEST_TIER") == "soak" else 100
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "TMPDIR": "/tmp"}
# In namespaces of its own, so that all it mounts and starts ends with it.
ENTER = """
set -e
mount --make-rprivate /
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount --rbind /sys "$1/sys"
exec chroot "$@"
"""
PLACE = "/another place"  # of the bundle in the root
# Headers that the machine with the bundle has: those of Python and PyTorch, and of the bundle's folder include/.
FOREIGN = re.compile(r"pybind11/|torch/|c10/|ATen/|Python\.h|dlpack/dlpack\.h|sys/|[a-z_0-9]+$|[a-z_]+\.h$")


def run(*command, status: int = 0, **settings: str) -> str:
    done = subprocess.run([str(word) for word in command], env={**ENVIRONMENT, **settings}, text=True, timeout=TIMEOUT,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != status:
        raise AssertionError(f"{' '.join(str(word) for word in command[-6:])}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def bundle(*arguments, status: int = 0) -> str:
    return run(sys.executable, ROOT / "tools/bundle", "--build", BUILD, *arguments, status=status)


def has_module() -> bool:
    return any((BUILD / python_part.PACKAGE).glob("_core.*.so"))


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tally-bundle-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name).resolve()
        cls.made = cls.folder / "made"
        cls.output = bundle("--into", cls.made, "--tar", cls.folder / "packed.tar", *(["--python"] if has_module() else []))

    def objects(self) -> list[Path]:
        files = [file for folder in ("bin", "lib") for file in (self.made / folder).iterdir()]
        self.assertTrue(all(shared_objects.is_elf(file) for file in files))
        return files

    def root_with_c_library_alone(self) -> Path:
        """A folder for chroot with the C library and the bundle."""
        root = Path(tempfile.mkdtemp(dir=self.folder))
        for name in ("proc", "dev", "sys", "tmp"):
            (root / name).mkdir()
        loader = Path(re.search(r"interpreter: (\S+)\]", run("readelf", "-l", BUILD / "control/tallyd"))[1])
        c_library = Path(re.search(r"libc\.so\.6 => (\S+)", run("ldd", BUILD / "control/tallyd"))[1])
        of_c_library = [file for file in c_library.parent.iterdir() if shared_objects.is_of_c_library(file.name)]
        for file in [loader, *of_c_library]:
            target = root / file.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        shutil.copytree(self.made, root / PLACE[1:], symlinks=True)
        return root

    def test_has_all_libraries_but_those_of_the_c_library(self):
        for file in self.objects():
            for name, path in shared_objects.libraries(file).items():
                self.assertTrue(path.resolve().is_relative_to(self.made), f"{file.name} takes {name} from {path}")
            self.assertFalse([name for name in run("ldd", file).split() if shared_objects.is_of_c_library(Path(name).name)
                              and name.startswith(str(self.made))])

    def test_programs_run_where_there_is_nothing_but_the_c_library(self):
        unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--ipc"]
        unshare += [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("needs root, or namespaces for every user")
        root = self.root_with_c_library_alone()

        def inside(*words: str, **settings: str) -> str:
            return run(*unshare, "bash", "-c", ENTER, "enter", root, f"{PLACE}/bin/{words[0]}", *words[1:], **settings)

        self.assertIn("tallyd", inside("tallyd", "--version"))
        inside("tallyctl", "token", "secret", "/tmp/secret")  # opens OpenSSL
        for transport in ("shm", "fabric"):  # the second opens libfabric, and checksums open ISA-L
            output = inside("tally-perf", "allreduce", "--spawn", "2", "--min-bytes", "64K", "--max-bytes", "64K", "--iters", "2",
                            "--warmup", "1", "--check", "--transport", transport, TALLY_CHECKSUMS="1")
            self.assertIn("# 0 wrong of", output)

    def test_packs_what_the_sources_open_at_run_time(self):
        opened = set()
        for file in sources.list_files(ROOT, (".cc",)):
            if not file.startswith("tests/"):
                opened |= set(re.findall(r'k\w*Name = "(lib\w+\.so\.\d+)"', (ROOT / file).read_text(encoding="utf-8")))
        self.assertTrue(opened)
        installed = {name for name in opened if shared_objects.installed_library(name)}
        self.assertEqual(installed - {file.name for file in self.objects()}, set())

    def test_is_small(self):
        for file in self.objects():
            self.assertNotIn(".debug_", run("readelf", "--sections", "--wide", file))

    def test_names_the_c_library_that_it_needs(self):
        wanted = max(tuple(map(int, found)) for file in self.objects()
                     for found in re.findall(r"\(?GLIBC_(\d+)\.(\d+)", run("objdump", "-T", file)))
        self.assertIn("for glibc {}.{} and later".format(*wanted), self.output)

    def test_archive_has_the_same_files(self):
        with tarfile.open(self.folder / "packed.tar") as opened:
            packed = {entry.name for entry in opened if not entry.isdir()}
        files = {f"made/{file.relative_to(self.made)}" for file in self.made.rglob("*") if not file.is_dir()}
        self.assertEqual(packed, files)

    def test_leaves_libraries_that_are_only_opened_to_the_machine(self):
        few = self.folder / "few"
        bundle("--into", few, "--linked-only", "client/libtally.so")
        names = {file.name for file in (few / "lib").iterdir()}
        self.assertEqual(names, {"libtally.so", "libtally.so.0", "libstdc++.so.6", "libgcc_s.so.1"})
        bundle("--into", few, "--linked-only", "control/tallyctl")  # replaces that bundle
        self.assertFalse((few / "lib/libtally.so").exists())

    def test_refuses_what_it_cannot_pack(self):
        other = self.folder / "other"
        self.assertIn("run tools/build", bundle("--into", other, "control/no-such-program", status=1))
        (self.folder / "full").mkdir()
        (self.folder / "full/file").write_text("of a user")
        self.assertIn("is no bundle", bundle("--into", self.folder / "full", status=1))
        self.assertTrue((self.folder / "full/file").exists())
        self.assertIn("must end with", bundle("--tar", "x.zip", status=2))
        self.assertIn("neither a program", bundle("--into", other, "build.ninja", status=1))

    @unittest.skipUnless(has_module(), "the build folder has no module tally")
    def test_python_part_has_the_headers_that_it_includes(self):
        part = self.made / "python/sources"
        files = [file for file in part.rglob("*") if file.suffix in (".h", ".cc")]
        self.assertIn(part / "integrations/python/src/torch/group.cc", files)
        for file in files:
            for line, name, foreign in sources.includes(file.read_text(encoding="utf-8")):
                here = [place for place in (part, part / "client/include") if (place / name).is_file()]
                self.assertTrue(here or (foreign and FOREIGN.match(name)), f"{file}:{line}: {name}")
        self.assertTrue((self.made / "python/include/dlpack/dlpack.h").is_file())

    @unittest.skipUnless(has_module() and os.environ.get("TALLY_TEST_TIER") == "soak", "compiles for minutes: in tier soak")
    def test_python_package_is_made_from_the_bundle(self):
        python = run(ROOT / "tools/lib/interpreter", VIRTUAL_ENV=os.environ.get("VIRTUAL_ENV", "")).strip()
        moved, package = self.folder / "moved", self.folder / "package"
        shutil.copytree(self.made, moved, symlinks=True)
        run(python, moved / "python/build_modules.py", package)
        program = """
import os, torch, torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1", GLOO_SOCKET_IFNAME="lo")
dist.init_process_group("tally")
tensor = torch.ones(300_000)
dist.all_reduce(tensor)
assert (tensor == 1).all()
dist.destroy_process_group()
import tally
print(tally.__file__, tally.local.tallyd_program())
"""
        output = run(python, "-c", program, PYTHONPATH=str(package))
        self.assertIn(str(package), output)
        self.assertIn(f"{package}/tally/bin/tallyd", output)


if __name__ == "__main__":
    if not all(shutil.which(name) for name in ("patchelf", "readelf", "strip", "ldd")):
        print("needs patchelf: run tools/setup --python")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
