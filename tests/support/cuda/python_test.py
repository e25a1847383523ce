#!/usr/bin/env python3
"""A Python process finds the CUDA of the process by LD_LIBRARY_PATH, and sets it by TALLY_TEST_CUDA."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import unittest

# Copies a word up to a device and back, and prints what the double counted.
COPIES = """
import ctypes, mmap
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    assert code == 0, (name, code)
call("cuInit", 0)
context, stream, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxPushCurrent", context)
call("cuStreamCreate", ctypes.byref(stream), 1)
call("cuMemAlloc", ctypes.byref(memory), ctypes.c_size_t(4096))
# Not mmap.mmap, which is unmapped before the process has ended.
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
pages = libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ | mmap.PROT_WRITE,
                  mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, ctypes.c_long(0))
words = (ctypes.c_uint32 * 1024).from_address(pages)
call("cuMemHostRegister", words, ctypes.c_size_t(4096), 0)
words[0] = 77
call("cuMemcpyHtoDAsync", memory, words, ctypes.c_size_t(4), stream)
call("cuMemcpyDtoHAsync", ctypes.c_void_p(ctypes.addressof(words) + 4), memory, ctypes.c_size_t(4), stream)
call("cuStreamSynchronize", stream)
assert words[1] == 77
cuda.tally_test_cuda_report.restype = ctypes.c_char_p
print(cuda.tally_test_cuda_report().decode())
"""
WAITS = COPIES + """
call("cuStreamWaitValue32", stream, ctypes.c_uint64(ctypes.addressof(words)), 78, 0)
"""


def run(program, settings):
    return subprocess.run([sys.executable, "-c", program], env={**os.environ, "TALLY_TEST_CUDA": settings},
                          capture_output=True, text=True, timeout=60)


class PythonTest(unittest.TestCase):
    def test_the_double_is_the_library_that_ctypes_opens(self):
        self.assertTrue(hasattr(ctypes.CDLL("libcuda.so.1"), "tally_test_cuda_report"))

    def test_it_copies_and_counts(self):
        done = run(COPIES, "queues=1,bandwidth=1000000000,seed=7,misuse=abort")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual((report["bytes_up"], report["bytes_down"]), (4, 4))
        self.assertEqual(report["calls"]["cuMemcpyHtoDAsync"], 1)
        self.assertEqual(report["misuses"], [])

    def test_it_reports_a_stream_that_waits_at_the_end(self):
        done = run(WAITS, "")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the process ends while stream", done.stderr)
        self.assertIn("is at least 78 (it is 77)", done.stderr)
        self.assertEqual(run(WAITS, "misuse=abort").returncode, -signal.SIGABRT)


if __name__ == "__main__":
    unittest.main()
