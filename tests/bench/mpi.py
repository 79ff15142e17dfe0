# SPDX-License-Identifier: Apache-2.0
"""OpenMPI and MPICH, which Debian has, as peers of the benches between hosts. Either may be missing."""
import dataclasses
import pathlib
import shlex
import shutil
import subprocess

import bench


@dataclasses.dataclass(frozen=True)
class Mpi:
    """`start` begins the command; it ends with the ranks' program. Both reach the other host through a program that
    takes the place of ssh."""

    name: str
    compiler: str
    package: str

    def missing(self):
        return "" if shutil.which(self.compiler) else f"missing: no {self.compiler} (package {self.package})"

    def compile(self, source, folder):
        program = pathlib.Path(folder) / pathlib.Path(source).stem
        bench.run([self.compiler, "-O2", str(source), "-o", str(program)])
        return program


class OpenMpi(Mpi):
    def start(self, reach, addresses, interface):
        # Without UCX, which would use memory that both hosts of this machine share.
        return [
            "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--host", ",".join(addresses),
            "--mca", "plm_rsh_agent", str(reach), "--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
            "--mca", "btl_tcp_if_include", interface, "--mca", "oob_tcp_if_include", interface, "-n", str(len(addresses))]


class Mpich(Mpi):
    def start(self, reach, addresses, interface):
        # As above: TCP only.
        return [
            "mpiexec.mpich", "-hosts", ",".join(addresses), "-launcher", "ssh", "-launcher-exec", str(reach),
            "-iface", interface, "-genv", "MPIR_CVAR_NOLOCAL", "1", "-genv", "UCX_TLS", "tcp,self",
            "-genv", "UCX_NET_DEVICES", interface, "-n", str(len(addresses))]


ALL = [OpenMpi("OpenMPI", "mpicc.openmpi", "libopenmpi-dev"), Mpich("MPICH", "mpicc.mpich", "libmpich-dev")]


def write_reach(path, names, addresses):
    """Writes a program that is called as ssh is, with options, an address and a command, and runs the command in the
    namespace of that address. Each namespace has a host name of its own there: OpenMPI takes equal names for one host."""
    cases = "\n".join(f"{address}) namespace={shlex.quote(name)} ;;" for name, address in zip(names, addresses))
    path.write_text(f"""#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
case $1 in
{cases}
*) exit 255 ;;
esac
shift
exec ip netns exec "$namespace" unshare --uts sh -c "hostname $namespace; $*"
""")
    path.chmod(0o700)


def run(mpi, reach, addresses, interface, words):
    """The output of one world; it begins on the first host."""
    command = mpi.start(reach, addresses, interface) + [str(word) for word in words]
    done = subprocess.run(
        [str(reach), addresses[0], shlex.join(command)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=bench.BOUND_S, text=True)
    if done.returncode != 0:
        raise bench.Failed(f"{mpi.name} {bench.ended_how(done.returncode)}", done.stdout)
    return done.stdout
