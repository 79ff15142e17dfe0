#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_wheel.py VERSION PROCESSOR OUT PROGRAM... -- LICENSE...

Writes OUT/ddprun-VERSION-py3-none-PLATFORM.whl, which puts the programs into an environment's bin/, beside them
ddprunctl, and the package ddprun (worker_sdk/python) into its modules.
The programs must need no shared library: then they run with every C library, and the wheel's tags
(any glibc from 2.17 on, any musl from 1.1 on) are true. Exits with 1 and the reason if they are not.
The same inputs give the same bytes."""
import base64
import hashlib
import pathlib
import struct
import sys
import zipfile

MACHINES = {"x86_64": 62, "aarch64": 183}  # e_machine in the ELF header
PT_DYNAMIC, PT_INTERP = 2, 3
# A wheel has no links: ddprun under its other name.
CTL = """#!python
import os
import sys
os.execv(os.path.join(os.path.dirname(os.path.realpath(sys.argv[0])), "ddprun"), ["ddprunctl"] + sys.argv[1:])
"""


def check_static(path, processor):
    """Ends the program unless the file is a static ELF program for this processor."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        sys.exit(f"{path}: no 64-bit little-endian ELF file")
    machine = struct.unpack_from("<H", data, 18)[0]
    if machine != MACHINES[processor]:
        sys.exit(f"{path}: built for processor number {machine}, not for {processor}")
    offset = struct.unpack_from("<Q", data, 32)[0]
    size, count = struct.unpack_from("<HH", data, 54)
    kinds = [struct.unpack_from("<I", data, offset + i * size)[0] for i in range(count)]
    if PT_INTERP in kinds or PT_DYNAMIC in kinds:
        sys.exit(f"{path}: needs shared libraries; build the release preset, which links statically")


def main():
    version, processor, out, *paths = sys.argv[1:]
    split = paths.index("--")
    programs = [pathlib.Path(p) for p in paths[:split]]
    licenses = [pathlib.Path(p) for p in paths[split + 1:]]
    for program in programs:
        check_static(program, processor)
    tags = [f"py3-none-{c}_{processor}" for c in ("manylinux_2_17", "manylinux2014", "musllinux_1_1")]
    name = f"ddprun-{version}"
    info = f"{name}.dist-info"
    metadata = (
        "Metadata-Version: 2.1\n"
        "Name: ddprun\n"
        f"Version: {version}\n"
        "Summary: torchrun's command line as a native program: launcher and rendezvous server\n"
        "License: Apache-2.0\n"
        "Requires-Python: >=3.7\n"
        "Description-Content-Type: text/plain\n"
        "\n"
        "ddprun starts a distributed training job and keeps it alive: ddprun --nproc-per-node=4 train.py\n")
    wheel = ("Wheel-Version: 1.0\nGenerator: ddprun\nRoot-Is-Purelib: false\n"
             + "".join(f"Tag: {tag}\n" for tag in tags))
    files = [(f"{name}.data/scripts/{p.name}", p.read_bytes(), 0o755) for p in programs]
    files.append((f"{name}.data/scripts/ddprunctl", CTL.encode(), 0o755))
    package = pathlib.Path(__file__).resolve().parents[2] / "worker_sdk" / "python" / "ddprun"
    files += [(f"ddprun/{p.name}", p.read_bytes(), 0o644) for p in sorted(package.glob("*.py"))]
    files += [(f"{info}/licenses/{p.name}", p.read_bytes(), 0o644) for p in licenses]
    files += [(f"{info}/METADATA", metadata.encode(), 0o644), (f"{info}/WHEEL", wheel.encode(), 0o644)]

    record = ""
    for path, data, _ in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    record += f"{info}/RECORD,,\n"
    files.append((f"{info}/RECORD", record.encode(), 0o644))

    platforms = ".".join(tag.split("-")[2] for tag in tags)
    target = pathlib.Path(out) / f"{name}-py3-none-{platforms}.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, data, mode in files:
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    print(target)


main()
