#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# packages_test.sh FOLDER SOURCE: installs each package that scripts/package.sh has written into FOLDER, as a
# new user would, runs a job with it and removes it. SOURCE is a checkout, for an example. Run by
# scripts/bare.sh --packages, as root in a minimal Debian, which it changes.
set -euo pipefail
packages=$1 source_dir=$2
export DEBIAN_FRONTEND=noninteractive

step() { printf '== %s\n' "$*"; }
fail() { printf '%s\n' "$*" >&2; exit 1; }
the() { # PATTERN: the one file that has this name
    local files=("$packages"/$1)
    [ ${#files[@]} = 1 ] && [ -f "${files[0]}" ] || fail "$packages: not exactly one file $1"
    printf '%s\n' "${files[0]}"
}

# Two workers, a failure that is reported, and nothing else on the screen.
try_program() { # DDPRUN
    local out status=0
    "$1" --version
    out=$("$1" --standalone --nproc-per-node=2 --no-python sh -c 'echo "rank $RANK of $WORLD_SIZE"' | sort)
    [ "$out" = $'rank 0 of 2\nrank 1 of 2' ] || fail "$1: the workers wrote: $out"
    out=$("$1" --standalone --no-python sh -c 'echo broken >&2; exit 7' 2>&1) || status=$?
    [ "$status" = 7 ] || fail "$1: exit code $status instead of 7"
    grep -q broken <<<"$out" || fail "$1: the report lacks the worker's error: $out"
}

# An agent that gets no processor for seconds does not answer.
wait_until_shown() { # DDPRUNCTL
    local list
    for _ in $(seq 20); do
        list=$("$1" ps)
        ! grep -q '^package ' <<<"$list" || return 0
        sleep 0.5
    done
    fail "$1 does not show a job, but: $list"
}

# A job that it stops, by the name of its run.
try_ctl() { # FOLDER
    local status=0 job
    "$1/ddprunctl" --version
    # The shell in the background empties it too late for what is asked below.
    : >/tmp/job.out
    "$1/ddprun" --rdzv-id=package --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:29477 --no-python sh -c 'echo up; exec sleep 1000' >/tmp/job.out 2>&1 &
    job=$!
    until grep -q up /tmp/job.out; do sleep 0.1; done
    wait_until_shown "$1/ddprunctl"
    "$1/ddprunctl" stop package || "$1/ddprunctl" stop package
    wait $job || status=$?
    [ "$status" = 143 ] || fail "a job that $1/ddprunctl stopped ended with $status instead of 143"
}

! command -v ddprun >/dev/null || fail "this machine has a ddprun: it shows nothing"
(cd "$packages" && sha256sum --quiet --check SHA256SUMS)
processor=$(uname -m) arch=$(dpkg --print-architecture)

step "tar file"
tar -xzf "$(the "ddprun-*-linux-$processor.tar.gz")" -C /opt
try_program /opt/ddprun-*/bin/ddprun
try_ctl /opt/ddprun-*/bin
for file in share/man/man1/ddprun.1.gz share/man/man1/ddprunctl.1.gz share/bash-completion/completions/ddprun \
    share/bash-completion/completions/ddprunctl share/doc/ddprun/LICENSE \
    share/doc/ddprun/THIRD-PARTY-LICENSES lib/systemd/system/ddprun-rendezvous.service \
    lib/systemd/system/ddprun-rendezvous.socket; do
    [ -s /opt/ddprun-*/"$file" ] || fail "the tar file lacks $file"
done
grep -q '^ExecStart=/usr/bin/ddprun-rendezvous$' /opt/ddprun-*/lib/systemd/system/ddprun-rendezvous.service ||
    fail "the unit does not start the program where the packages have it"
"$source_dir/tests/package/image_test.sh" /opt/ddprun-* --run
for program in /opt/ddprun-*/bin/*; do
    size=$(stat -c %s "$program")
    printf '%s: %d.%d MB\n' "$(basename "$program")" $((size / 1000000)) $((size / 100000 % 10))
    # Of it 4.1 MB are OpenSSL's, which cannot be linked in parts.
    [ "$size" -le 10000000 ] || fail "$program has $size bytes, over 10 MB"
done
rm -r /opt/ddprun-*

symbols=$(tar -tzf "$(the "ddprun-*-debug-$processor.tar.gz")")
for program in ddprun ddprun-rendezvous; do
    grep -qx "./$program.debug" <<<"$symbols" || fail "the tar file of debug symbols lacks those of $program"
done

step "Debian package"
dpkg -i "$(the "ddprun_*_$arch.deb")"
try_program ddprun
try_ctl /usr/bin
ddprun-rendezvous --version
for unit in service socket; do
    [ -s "/usr/lib/systemd/system/ddprun-rendezvous.$unit" ] || fail "the package lacks the $unit unit"
done
[ -s /usr/share/ddprun/python/ddprun/__init__.py ] || fail "the package lacks the Python module"
dpkg --remove ddprun
[ ! -e /usr/bin/ddprun ] || fail "ddprun is left after its package was removed"

step "wheel, in a virtual environment"
apt-get install --yes --no-install-recommends python3-venv >/dev/null
python3 -m venv /opt/venv
/opt/venv/bin/pip install --quiet --no-index "$(the "ddprun-*_$processor.whl")"
try_program /opt/venv/bin/ddprun
try_ctl /opt/venv/bin
printf 'import os, sys\nprint(sys.prefix, os.environ["RANK"])\n' >/tmp/job.py
out=$(/opt/venv/bin/ddprun --standalone /tmp/job.py)
[ "$out" = "/opt/venv 0" ] || fail "a script does not run with the environment's Python: $out"
mkdir -p /tmp/modules/torch/distributed
touch /tmp/modules/torch/__init__.py /tmp/modules/torch/distributed/__init__.py
echo 'main = None' >/tmp/modules/torch/distributed/run.py
printf 'import torch.distributed.run\ntorch.distributed.run.main(["--standalone", "/tmp/job.py"])\n' >/tmp/by_main.py
out=$(PYTHONPATH=/tmp/modules /opt/venv/bin/python -m ddprun.shim /tmp/by_main.py)
[ "$out" = "/opt/venv 0" ] || fail "the wheel's shim does not reach ddprun: $out"
printf 'import ddprun, sys\nddprun.report(3)\nprint(ddprun._connection is not None, flush=True)\nsys.exit(5)\n' >/tmp/reports.py
out=$(/opt/venv/bin/ddprun --standalone /tmp/reports.py 2>&1 || true)
[[ "$out" == True* && "$out" == *"progress       step 3"* ]] || fail "the wheel's module does not reach its agent: $out"
/opt/venv/bin/pip uninstall --quiet --yes ddprun
[ ! -e /opt/venv/bin/ddprun ] || fail "ddprun is left after its wheel was removed"

sdk=("$packages"/libddprun-dev_*_"$arch".deb)
if [ "${3:-}" = --without-sdk ]; then exit; fi
step "Debian package of the SDK"
apt-get install --yes --no-install-recommends "${sdk[0]}" g++ cmake make pkg-config >/dev/null
dpkg -i "$(the "ddprun_*_$arch.deb")" >/dev/null
cmake -S "$source_dir/examples/thirty_lines" -B /tmp/thirty_lines >/dev/null
cmake --build /tmp/thirty_lines
ddprun --standalone --nproc-per-node=2 --no-python /tmp/thirty_lines/thirty_lines
# shellcheck disable=SC2046  # flags are words
cc -std=c11 "$source_dir/examples/tutorials/plain_c.c" -o /tmp/plain_c $(pkg-config --cflags --libs ddprun)
ddprun --standalone --nproc-per-node=2 --no-python /tmp/plain_c | grep 'rank 1 of 2: average 9.5'
