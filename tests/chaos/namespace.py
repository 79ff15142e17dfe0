# SPDX-License-Identifier: Apache-2.0
"""Network namespaces: what is needed to make and enter them."""
import ctypes
import os
import shutil
import subprocess
import sys
import threading

CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def why_not():
    """Empty where a cluster can be made, else the reason for a skip."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool, package in (("ip", "iproute2"), ("nft", "nftables")):
        if not shutil.which(tool):
            return f"{tool} (package {package}) is missing"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun is missing"
    name = f"ddpc{os.getpid()}t"
    tried = [["ip", "netns", "add", name], ["ip", "-n", name, "link", "add", "sw", "type", "bridge"],
             ["ip", "netns", "exec", name, "nft",
              "table netdev lo { chain lost { type filter hook ingress device lo priority 0; numgen random mod 100 < 1 drop; }; }"]]
    try:
        for command in tried:
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode != 0:
                return f"{' '.join(command)} is not permitted here: {done.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL, check=False)
    return ""


def skip_where_impossible(name):
    """DDPRUN_REQUIRE_ROOT=1 makes a failure of it, as in the process tests."""
    if reason := why_not():
        if os.environ.get("DDPRUN_REQUIRE_ROOT") == "1":
            sys.exit(f"ERROR: may not be skipped here: {name}: {reason}")
        print(f"SKIP {name}: {reason}")
        sys.exit(0)


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def in_namespace(name, call):
    """Runs `call` on a thread that lives in that network; sockets and devices it opens stay there."""
    result = []

    def live():
        try:
            with open(f"/run/netns/{name}", "rb") as namespace:
                if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), f"setns {name}")
            result.append(call())
        except OSError as error:
            result.append(error)

    thread = threading.Thread(target=live)
    thread.start()
    thread.join()
    if isinstance(result[0], OSError):
        raise result[0]
    return result[0]
