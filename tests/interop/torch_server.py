# SPDX-License-Identifier: Apache-2.0
"""TCPStore servers of PyTorch, as many as asked for (one): prints their ports, a line each, and serves
until its standard input ends."""
import os
import sys
from datetime import timedelta

# PyTorch's server asks for the name of each client's address, and serves nothing until there is an answer:
# where the DNS server is slow, a bench takes hours. Without attempts there is none to wait for.
os.environ["RES_OPTIONS"] = "attempts:0"

import torch.distributed as dist

stores = [
    dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=60))
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
]
for store in stores:
    print(store.port, flush=True)
sys.stdin.read()
