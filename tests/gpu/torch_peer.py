# SPDX-License-Identifier: Apache-2.0
"""What the PyTorch scripts beside gpu_check.py share. Without CUDA they say so in one line and exit 77."""
import os
import sys
import tempfile
import time

SKIP = 77


def cuda():
    """torch, where it can use a GPU."""
    try:
        import torch
    except ImportError:
        print(f"{sys.executable} has no PyTorch (DDPRUN_TORCH_PYTHON names one that has)")
        sys.exit(SKIP)
    if not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} of {sys.executable} has no CUDA")
        sys.exit(SKIP)
    torch.cuda.set_device(0)
    print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}, "
          f"NCCL {torch.cuda.nccl.version()}, {torch.cuda.get_device_name()}", flush=True)
    return torch


def in_world_of_one(body):
    """Runs `body` in a process group of one, on NCCL."""
    import torch.distributed as dist
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("nccl", init_method=f"file://{os.path.join(folder, 'store')}", rank=0, world_size=1)
        try:
            body()
        finally:
            dist.destroy_process_group()


def seconds_of(torch, body):
    torch.cuda.synchronize()
    start = time.perf_counter()
    body()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def print_figure(number, how=""):
    print(f"figure {number:.4f} {how}".strip(), flush=True)
