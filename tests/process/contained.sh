#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# contained.sh BUILD KIND: the tests of one node's jobs, where containers and old kernels differ from this machine.
set -eu
build=$(realpath "$1")
kind=$2
tests=$build/bin/ddprun_process
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The first needs a set-user-id program, the second gives ddprun another name.
excluded='what cannot be killed*,called by a link named*'

# Makes a ddprun that starts the real one through this command. A shell reads the command, since the
# build folder may have a space in its name.
wrap() {
    printf "#!/bin/sh\nexec %s '%s/bin/ddprun' \"\$@\"\n" "$*" "$build" >"$folder/ddprun"
    chmod 755 "$folder" "$folder/ddprun"
    [ -x "$folder/ddprun" ] || { echo "$folder: programs cannot be run there"; exit 1; }
    export DDPRUN_TEST_BIN_DIR="$folder"
}

skip() {
    [ -z "${DDPRUN_REQUIRE_ROOT:-}" ] || { echo "required here: $1"; exit 1; }
    echo "SKIP $kind: $1"
    exit 0
}

[ "$(id -u)" = 0 ] || skip "namespaces and other users need root"
case $kind in
process-1)
    wrap "'$build/stubs/contain'"
    # The worker of this test identifies ddprun by a pid from outside of the namespace.
    excluded="$excluded,a signal to forward that comes while workers are started*"
    ;;
eperm | enosys)
    refusing=
    for call in pidfd_open pidfd_send_signal close_range clone3 set_mempolicy; do
        refusing="$refusing '$build/stubs/refuse' $call-$kind"
    done
    wrap "$refusing"
    ;;
unknown-user)
    excluded=
    setpriv --reuid=61234 --regid=61234 --clear-groups test -x "$tests" || skip "$build is not for other users"
    set -- setpriv --reuid=61234 --regid=61234 --clear-groups env -u HOME -u DDPRUN_REQUIRE_ROOT
    ;;
no-cgroups)
    excluded=
    reason=$(unshare --mount true 2>&1) || skip "no mount namespace can be made here: $reason"
    set -- unshare --mount sh -c 'mount -t tmpfs -o ro none /sys/fs/cgroup && exec "$@"' sh
    ;;
esac
case $kind in process-1 | eperm | enosys) set -- env ;; esac
"$@" "$tests" --source-file='*one_node_test*,*stopping_test*,*exit_codes_test*' --test-case-exclude="$excluded"
