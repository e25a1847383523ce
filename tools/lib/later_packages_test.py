#!/usr/bin/env python3
"""When packages for the Python module are installed after the build folder was configured, the next build uses them.

A small project looks for packages with the files of the real one. The headers, the files of pkg-config and the module
torch of "the machine" are files that this test plants in folders of its own.
"""

import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lib import planted  # noqa: E402

PROJECT = """
project('planted', 'cpp', meson_version: '>=1.0', default_options: ['cpp_std=c++20'])
cpp = meson.get_compiler('cpp')
subdir('tools/lib')
subdir('integrations/python/needs')
executable('always', 'main.cc')
if missing_for_module == []
  executable('module', 'main.cc')
endif
if missing_packages == []
  executable('front_ends', 'main.cc')
endif
"""
TORCH = {
    "torch/__init__.py": "__version__ = '2.13.0'\nclass _C:\n    _GLIBCXX_USE_CXX11_ABI = True\n",
    "torch/utils/__init__.py": "",
    "torch/utils/cpp_extension.py": """
from pathlib import Path
def include_paths(): return [str(Path(__file__).parents[1] / 'include')]
def library_paths(): return ['/nowhere']
""",
}
PACKAGES = "/var/lib/dpkg/status"


@unittest.skipUnless(Path(PACKAGES).is_file(), "this is not Debian: ninja does not depend on packages")
class LaterPackages(planted.PlantedTest):
    def setUp(self):
        super().setUp()
        for path in ("tools/lib", "integrations/python/needs"):
            shutil.copytree(planted.ROOT / path, self.root / path)
        shutil.copy(planted.ROOT / "tools/build", self.root / "tools/build")
        shutil.copy(planted.ROOT / "meson_options.txt", self.root)
        self.plant("meson.build", PROJECT)
        self.plant("main.cc", "int main() {}\n")
        for name in ("torch", "numpy", "jax"):
            self.plant(f"machine/modules/{name}.py", "raise ImportError('not installed')\n")
        (self.root / "machine/include").mkdir()
        (self.root / "machine/pkgconfig").mkdir()

        machine = self.root / "machine"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("TALLY_", "MESON", "VIRTUAL_ENV"))}
        self.environment |= {"CXXFLAGS": f"-nostdinc -I{machine / 'include'}",
                             "PYTHONPATH": str(machine / "modules"),
                             "PKG_CONFIG_LIBDIR": str(machine / "pkgconfig")}

    def run_tool(self, *command: str | Path) -> None:
        result = subprocess.run(command, cwd=self.root, env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(result.returncode, 0, result.stdout)

    def build(self) -> None:
        self.run_tool(self.root / "tools/build")

    def packages_change(self) -> None:
        """Sets times as if the build folder had been configured before the packages changed, and after all else."""
        before = os.stat(PACKAGES).st_mtime - 100
        for path in self.root.rglob("*"):
            if path.name in ("meson.build", "meson_options.txt", "line.txt.in", "coredata.dat", "has_header.cc",
                             "python_versions.py"):
                os.utime(path, (before - 100, before - 100))
        os.utime(self.root / "build/build.ninja", (before, before))

    def has(self, program: str) -> bool:
        return (self.root / "build" / program).exists()

    def missing(self) -> str:
        return (self.root / "build/integrations/python/needs/missing.txt").read_text().strip()

    def install_headers(self) -> None:
        (self.root / "machine/modules/numpy.py").write_text("")
        self.plant("machine/include/dlpack/dlpack.h", "")
        self.plant("machine/pkgconfig/pybind11.pc", "Name: pybind11\nDescription: planted\nVersion: 2.10\n")

    def install_torch(self) -> None:
        (self.root / "machine/modules/torch.py").unlink()
        (self.root / "machine/modules/jax.py").write_text(
            "__version__ = '0.10.2'\nclass ffi:\n    include_dir = staticmethod(lambda: '/nowhere')\n")
        for path, text in TORCH.items():
            self.plant(f"machine/modules/{path}", text)

    def test_each_is_found_once_it_is_there_and_nothing_is_compiled_twice(self):
        self.build()
        self.assertTrue(self.has("always"))
        self.assertFalse(self.has("module"))
        self.assertEqual(self.missing(), "pybind11-dev libdlpack-dev numpy torch jax")
        compiled = os.stat(self.root / "build/always.p/main.cc.o").st_mtime_ns

        self.install_headers()
        self.packages_change()
        self.build()
        self.assertTrue(self.has("module"), self.missing())
        self.assertEqual(self.missing(), "torch jax")

        # A configuration by hand works without a change of the packages.
        self.install_torch()
        self.run_tool("meson", "setup", "--reconfigure", "build")
        self.build()
        self.assertTrue(self.has("front_ends"), self.missing())
        self.assertEqual(self.missing(), "")
        self.assertEqual(os.stat(self.root / "build/always.p/main.cc.o").st_mtime_ns, compiled)

        # Nothing is missing, so packages may change without a new configuration.
        self.packages_change()
        configured = os.stat(self.root / "build/build.ninja").st_mtime_ns
        self.build()
        self.assertEqual(os.stat(self.root / "build/build.ninja").st_mtime_ns, configured)


if __name__ == "__main__":
    planted.main()
