# SPDX-License-Identifier: Apache-2.0
"""both.py LIBRARY torch|ddprun: all-reduces through PyTorch's Gloo and through ours, in turn, in one process."""
import ctypes
import sys

LIBRARY, FIRST = sys.argv[1:]
GLOO, FLOAT32, SUM = 3, 0, 0
COUNT = 100_000


class Ours:
    def __init__(self):
        self.library = ctypes.CDLL(LIBRARY)
        self.library.ddprun_last_error.restype = ctypes.c_char_p
        world = ctypes.create_string_buffer(64 * 1024)  # larger than the structure
        self.group = ctypes.c_void_p()
        self.check(self.library.ddprun_init(None, world))
        self.check(self.library.ddprun_group_create(
            world, None, GLOO, ctypes.c_int64(120_000), ctypes.byref(self.group)))
        self.rank = self.library.ddprun_group_rank(self.group)

    def check(self, status):
        if status != 0:
            sys.exit(f"ddprun: {self.library.ddprun_last_error().decode()}")

    def sum(self, number):
        values = (ctypes.c_float * COUNT)(*[number] * COUNT)
        self.check(self.library.ddprun_all_reduce(
            self.group, values, ctypes.c_size_t(COUNT), FLOAT32, SUM, None))
        return values[COUNT - 1]

    def close(self):
        self.check(self.library.ddprun_barrier(self.group, None))
        self.library.ddprun_group_free(self.group)


class Theirs:
    def __init__(self):
        import torch
        import torch.distributed
        self.torch = torch
        torch.distributed.init_process_group("gloo")

    def sum(self, number):
        values = self.torch.full([COUNT], number)
        self.torch.distributed.all_reduce(values)
        return values[-1].item()

    def close(self):
        self.torch.distributed.barrier()
        self.torch.distributed.destroy_process_group()


def main():
    made = [kind() for kind in ((Theirs, Ours) if FIRST == "torch" else (Ours, Theirs))]
    for number in range(1, 6):
        sums = [library.sum(float(number)) for library in made]
        if sums != [2.0 * number] * 2:
            sys.exit(f"{number}: {sums}")
    for library in made:
        library.close()
    print("both are right")


main()
