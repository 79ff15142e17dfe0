#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# libtorch_test.sh SOURCE BUILD COMPILER CMAKE: builds examples/libtorch_ddp against the installed
# package and the libtorch in PyTorch's wheel, trains with it, and trains the same in Python: the
# losses must agree.
set -euo pipefail
source_dir=$1 build_dir=$2 compiler=$3 cmake=$4
place=$build_dir/libtorch
python=${DDPRUN_TORCH_PYTHON:-}
if [ -z "$python" ]; then
    [ "${DDPRUN_REQUIRE_TORCH:-}" != 1 ] || { echo "DDPRUN_TORCH_PYTHON is not set"; exit 1; }
    echo "SKIP libtorch: DDPRUN_TORCH_PYTHON names no Python with PyTorch"
    exit 0
fi

rm -rf "$place/prefix" "$place/ours" "$place/theirs"
mkdir -p "$place"
"$cmake" --install "$build_dir" --prefix "$place/prefix" >/dev/null
read -r version libtorch < <("$python" -c 'import torch; print(torch.__version__, torch.__path__[0])')
# CMake remembers which PyTorch it found.
build=$place/build-$version
"$cmake" -S "$source_dir/examples/libtorch_ddp" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$place/prefix;$libtorch" >"$place/configure.log" 2>&1 || {
    cat "$place/configure.log"
    exit 1
}
"$cmake" --build "$build" -- -j 1

ranks=2
# Each rank's lines in a file of its own: what two processes write into one can be cut anywhere.
launch=(timeout 120 "$place/prefix/bin/ddprun" --standalone "--nproc-per-node=$ranks" --no-python --redirects=1)
"${launch[@]}" --log-dir="$place/ours" "$build/train_toy"
"${launch[@]}" --log-dir="$place/theirs" "$python" "$source_dir/tests/interop/libtorch/train_reference.py"

"$python" - "$place/ours" "$place/theirs" <<'PYTHON'
import pathlib
import sys

def losses(folder):
    texts = [path.read_text() for path in pathlib.Path(folder).glob("*/round-0/*/rank-*/stdout*")]
    rows = [line.split() for text in texts for line in text.splitlines() if line.startswith("rank ")]
    return {(int(row[1]), int(row[3])): float(row[5]) for row in rows}

ours, theirs = map(losses, sys.argv[1:])
assert len(theirs) == 60 and ours.keys() == theirs.keys(), (len(ours), len(theirs))
# The order of additions is the only difference.
worst = max(abs(ours[key] - theirs[key]) / abs(theirs[key]) for key in theirs)
last = [theirs[0, step] for step in (0, 29)]
print(f"{len(theirs)} losses, from {last[0]:.4f} to {last[1]:.4f}; worst relative difference {worst:.2g}")
assert last[1] < last[0] / 2, "nothing was learnt"
assert worst < 1e-4
PYTHON
