"""The stubs say what the modules have, and the package agrees with its stubs."""

import ast
import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tally

PACKAGE = Path(tally.__file__).parent


def parameters_of_stub(function: ast.FunctionDef) -> list:
    arguments = function.args
    names = [a.arg for a in arguments.posonlyargs + arguments.args]
    return [n for n in names if n != "self"] + ["*"] * bool(arguments.kwonlyargs) + [
        a.arg for a in arguments.kwonlyargs]


def parameters_of_binding(function) -> list:
    """pybind11 writes the signature into the first line of the docstring."""
    signature = (function.__doc__ or "").splitlines()[0]
    signature = re.sub(r"\[[^][]*\]", "", re.sub(r"\[[^][]*\]", "", signature))
    inner = re.match(r"\w+\((.*)\)( ->|$)", signature).group(1)
    names = [part.split(":")[0].split("=")[0].strip() for part in inner.split(",") if part.strip()]
    return [name for name in names if name != "self"]


class Stubs(unittest.TestCase):
    def check_function(self, where: str, stub: ast.FunctionDef, owner) -> None:
        self.assertTrue(hasattr(owner, stub.name), f"{where}.{stub.name} is in the stub alone")
        found = inspect.getattr_static(owner, stub.name)
        if isinstance(found, property) or stub.name in ("__enter__", "__exit__"):
            return
        self.assertEqual(parameters_of_stub(stub), parameters_of_binding(getattr(owner, stub.name)),
                         f"{where}.{stub.name}")

    def check_class(self, where: str, stub: ast.ClassDef, module) -> None:
        found = getattr(module, stub.name)
        functions = [node for node in stub.body if isinstance(node, ast.FunctionDef)]
        for function in functions:
            if not (stub.name == "Handle" and function.name == "__init__"):
                self.check_function(f"{where}.{stub.name}", function, found)
        named = {function.name for function in functions}
        for name in vars(found):
            if not name.startswith("_"):
                self.assertIn(name, named, f"{where}.{stub.name}.{name} is not in the stub")
                if where == "tally._core" and callable(getattr(found, name)):
                    lines = inspect.getdoc(getattr(found, name)).split("\n", 1)
                    self.assertTrue(len(lines) == 2 and lines[1].strip(), f"{name}: no docstring")

    def check_module(self, name: str) -> None:
        module = importlib.import_module(name)
        path = Path(module.__file__).parent / f"{name.rsplit('.', 1)[1]}.pyi"
        stub = ast.parse(path.read_text())
        named = set()
        for node in stub.body:
            if isinstance(node, ast.ClassDef):
                self.check_class(name, node, module)
                named.add(node.name)
            elif isinstance(node, ast.FunctionDef):
                self.check_function(name, node, module)
                named.add(node.name)
        for found in vars(module):
            if not found.startswith("_"):
                self.assertIn(found, named, f"{name}.{found} is not in the stub")

    def test_core(self):
        self.check_module("tally._core")

    def test_torch(self):
        if not list(PACKAGE.glob("torch/_torch.*.so")):
            self.skipTest("built without PyTorch")
        import tally.torch  # noqa: F401
        self.check_module("tally.torch._torch")

    def test_jax(self):
        if not list(PACKAGE.glob("jax/_jax.*.so")):
            self.skipTest("built without JAX")
        self.check_module("tally.jax._jax")

    def test_the_package_agrees_with_them(self):
        if importlib.util.find_spec("mypy") is None:
            self.skipTest("mypy is not installed (tools/setup --python)")
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                [sys.executable, "-m", "mypy", "--cache-dir", cache, "-p", "tally"],
                cwd=PACKAGE.parent, text=True, capture_output=True, check=False, timeout=240)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
