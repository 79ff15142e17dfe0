#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# image_test.sh FOLDER [--run]: reads the Containerfile of an installation with that installation as its
# context, as an engine would: what it copies is there, the port is the program's, and the user is not root.
# --run, as root and for static programs: makes the root file system and starts the entry point in it as
# that user, with nothing else.
set -euo pipefail
context=$1
file=$context/share/ddprun/Containerfile

fail() { printf '%s: %s\n' "$file" "$*" >&2; exit 1; }
value_of() { # INSTRUCTION: of the one line that has it
    local values
    mapfile -t values < <(sed -n "s/^$1 //p" "$file")
    [ ${#values[@]} = 1 ] || fail "${#values[@]} lines with $1"
    printf '%s\n' "${values[0]}"
}

[ -f "$file" ] || fail "is not installed"
[ "$(value_of FROM)" = scratch ] || fail "is not from scratch"
[ "$(value_of STOPSIGNAL)" = SIGTERM ] || fail "is stopped by another signal than SIGTERM"
user=$(value_of USER)
[[ $user =~ ^[1-9][0-9]*:[1-9][0-9]*$ ]] || fail "USER is $user: a number of neither root nor root's group"
entry=$(value_of ENTRYPOINT)
[[ $entry =~ ^\[\"(/[^\"]+)\"\]$ ]] || fail "ENTRYPOINT $entry: not one program"
program=${BASH_REMATCH[1]}

root=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true; rm -rf "$root"' EXIT
while read -r from to; do
    [ -e "$context/$from" ] || fail "copies $from, which is not there"
    mkdir -p "$root$(dirname "$to")"
    cp -r "$context/$from" "$root$to"
done < <(sed -n 's/^COPY //p' "$file")
[ -x "$root$program" ] || fail "the entry point $program is not copied"
port=$(value_of EXPOSE)
"$root$program" --help | grep -q -- "--port .*\b$port\b" || fail "EXPOSE is $port, not the program's port"
[ "${2:-}" = --run ] || exit 0

chmod 755 "$root"
: >"$root/log"  # the first look may come before the program's shell has opened it
chroot --userspec="$user" "$root" "$program" --host 127.0.0.1 --port 0 2>"$root/log" &
server=$!
for _ in $(seq 300); do
    port=$(sed -n 's/.*rendezvous.listening port=\([0-9]*\).*/\1/p' "$root/log")
    [ -z "$port" ] || break
    kill -0 "$server" || break
    sleep 0.1
done
[ -n "$port" ] || fail "the image's program does not listen: $(cat "$root/log")"
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf 'GET /healthz HTTP/1.1\r\n\r\n' >&3
answer=$(cat <&3)
exec 3>&-
[[ $answer == *ok ]] || fail "the image's program answers: $answer"
kill -TERM "$server"
status=0
wait "$server" || status=$?
server=
[ "$status" = 0 ] || fail "exit code $status after SIGTERM: $(cat "$root/log")"
