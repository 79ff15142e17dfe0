# SPDX-License-Identifier: Apache-2.0
"""Asks PyTorch's own NUMA binding about the machines of tests/support/machines.hpp.

Prints "MACHINE MODE GPU CPUS" for every machine, mode and GPU, which is torch_bindings.txt:

  PYTHON tests/interop/binding/ask_torch.py >tests/interop/binding/torch_bindings.txt

PyTorch reads the machine it runs on; here the functions that read answer for the machine described.
"""

import os
import re

import torch.numa.binding as torch_binding

HERE = os.path.dirname(os.path.abspath(__file__))
# What 2.15 calls a device was a GPU in 2.13.
DEVICE = "device" if hasattr(torch_binding, "_get_device_count") else "gpu"
MACHINES = os.path.join(HERE, "../../support/machines.hpp")


def numbers(text):
    return torch_binding._get_set_of_int_from_ranges_str(text)


class Machine:
    def __init__(self, description):
        self.gpu_nodes = []
        self.cpus = {}
        self.nodes = {}
        allowed = None
        for line in filter(None, description.splitlines()):
            words = line.split()
            if words[0] == "gpu":
                self.gpu_nodes.append(int(words[3]) if len(words) > 2 else 0)
            elif words[0] == "allowed":
                allowed = numbers(words[1])
            else:
                self.add_cpus(sorted(numbers(words[1])), *map(int, words[3::2]))
        self.allowed = allowed or set(self.cpus)

    def add_cpus(self, cpus, node, socket, threads):
        cores = len(cpus) // threads
        for i, cpu in enumerate(cpus):
            siblings = {other for j, other in enumerate(cpus) if j % cores == i % cores}
            self.cpus[cpu] = {"socket": socket, "core": siblings, "cache": set(cpus)}
        self.nodes.setdefault(node, set()).update(cpus)

    def stand_in(self):
        answers = {
            f"_get_{DEVICE}_count": lambda: len(self.gpu_nodes),
            f"_get_numa_node_index_for_{DEVICE}_index": lambda **index: (
                self.gpu_nodes[index[f"{DEVICE}_index"]]
            ),
            "_get_logical_cpu_indices_sharing_same_physical_core_as": lambda logical_cpu_index: (
                self.cpus[logical_cpu_index]["core"]
            ),
            "_get_logical_cpus_sharing_same_max_level_cache_as": lambda logical_cpu_index: (
                self.cpus[logical_cpu_index]["cache"]
            ),
            "_get_cpu_indices_for_numa_node_MAYBE_NOT_ALLOWED": lambda numa_node_index: (
                self.nodes[numa_node_index]
            ),
            "_get_allowed_cpu_indices_for_current_thread": lambda: self.allowed,
            "_get_socket_index_for_cpu": lambda cpu_index: self.cpus[cpu_index]["socket"],
            "_get_systemwide_numa_node_indices": lambda: set(self.nodes),
        }
        for name, answer in answers.items():
            # A name that PyTorch has no more would stand in for nothing.
            assert hasattr(torch_binding, name), name
            setattr(torch_binding, name, answer)


def main():
    with open(MACHINES) as file:
        text = file.read()
    for name, description in re.findall(r"string_view (\w+) = R\"\((.*?)\)\"", text, re.DOTALL):
        machine = Machine(description)
        machine.stand_in()
        for mode in torch_binding.AffinityMode:
            options = torch_binding.NumaOptions(mode)
            for gpu in range(len(machine.gpu_nodes)):
                cpus = torch_binding._get_logical_cpus_to_bind_to(
                    **{f"{DEVICE}_index": gpu}, numa_options=options
                )
                print(name, mode.value, gpu, torch_binding._get_ranges_str_from_ints(cpus))


main()
