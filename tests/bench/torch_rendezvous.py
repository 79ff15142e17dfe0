# SPDX-License-Identifier: Apache-2.0
"""COUNT nodes join through torchrun's c10d rendezvous, a thread each; prints the seconds it took."""
import datetime
import sys
import threading
import time

import torch.distributed as dist
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import create_backend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

count = int(sys.argv[1])
server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=datetime.timedelta(seconds=60))
ended = [0.0] * count


def node(number):
    parameters = RendezvousParameters(
        backend="c10d", endpoint=f"127.0.0.1:{server.port}", run_id="bench", min_nodes=count, max_nodes=count,
        local_addr="127.0.0.1", is_host=False)
    backend, store = create_backend(parameters)
    handler = create_handler(store, backend, parameters)
    handler.next_rendezvous()
    ended[number] = time.monotonic()


begin = time.monotonic()
threads = [threading.Thread(target=node, args=(number,), daemon=True) for number in range(count)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(100)
if not all(ended):
    sys.exit("not all nodes arrived")
print(max(ended) - begin, flush=True)
