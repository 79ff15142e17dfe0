# SPDX-License-Identifier: Apache-2.0
"""A TCPStore server of PyTorch: prints its port, serves until its standard input ends."""
import sys
from datetime import timedelta

import torch.distributed as dist

store = dist.TCPStore(
    "127.0.0.1",
    0,
    is_master=True,
    wait_for_workers=False,
    timeout=timedelta(seconds=60),
    use_libuv="--no-libuv" not in sys.argv,
)
print(store.port, flush=True)
sys.stdin.read()
