# SPDX-License-Identifier: Apache-2.0
"""facts.py [LIBRARY...]: one line for each fact of the driver, the GPU and the libraries with these paths. In a process of its
own: a driver that is stuck does not answer."""
import ctypes
import os
import pathlib
import platform
import shutil
import subprocess
import sys


def of_driver():
    driver = ctypes.CDLL("libcuda.so.1")
    number = ctypes.c_int(0)
    print(f"cuInit {driver.cuInit(0)}", flush=True)
    driver.cuDriverGetVersion(ctypes.byref(number))
    print(f"driver for CUDA {number.value}", flush=True)
    driver.cuDeviceGetCount(ctypes.byref(number))
    print(f"GPUs {number.value}", flush=True)
    name = ctypes.create_string_buffer(100)
    driver.cuDeviceGetName(name, 100, 0)
    print(f"GPU {name.value.decode()}", flush=True)
    for what, attribute in (("compute capability", 75), ("minor", 76), ("multiprocessors", 16)):
        driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, 0)
        print(f"{what} {number.value}", flush=True)


def of_library(path):
    library = ctypes.CDLL(path)
    if "nccl" in path:
        number = ctypes.c_int(0)
        library.ncclGetVersion(ctypes.byref(number))
        print(f"{path}: NCCL {number.value}", flush=True)
        return
    for function in ("cudnnGetVersion", "cublasLtGetVersion"):
        if hasattr(library, function):
            get = getattr(library, function)
            get.restype = ctypes.c_size_t
            print(f"{path}: {function} {get()}", flush=True)


def of_machine():
    print(f"kernel {platform.release()}, {os.cpu_count()} processors, Python {platform.python_version()}")
    print("memory " + pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines()[0].split(":")[1].strip())
    for program in ("gdb", "cuda-gdb", "nvcc", "compute-sanitizer", "nvidia-smi"):
        print(f"{program}: {shutil.which(program) or shutil.which(program, path='/usr/local/cuda/bin') or 'none'}")
    sys.stdout.flush()
    if shutil.which("nvidia-smi"):
        subprocess.run(["nvidia-smi"], check=False, timeout=10)
        subprocess.run(["nvidia-smi", "topo", "-m"], check=False, timeout=10)


def main():
    of_machine()
    of_driver()
    for path in sys.argv[1:]:
        try:
            of_library(path)
        except (OSError, AttributeError) as error:
            print(f"{path}: {error}", flush=True)


main()
