#!/bin/sh
# usage: doctor.sh TALLYCTL
# Examines machine 1 of the guest while all is well, and after each of some things that people do to their machines.
# One JSON text each time, under a line with a name.
set -u
tallyctl=$1

examine() {
  echo "== $1"
  shift
  "$@" doctor --json
  echo "== status $?"
}

examine good "$tallyctl"
examine user setpriv --reuid 65534 --clear-groups "$tallyctl"
ip link set v1 mtu 1500
examine mtu "$tallyctl"
ip address del 10.9.0.1/24 dev v1
for _ in $(seq 100); do
  grep -q ':ffff:0a09:' /sys/class/infiniband/rxe1/ports/1/gids/* || break
  sleep 0.1
done
examine address "$tallyctl"
ip link set v1 down
examine down "$tallyctl"
rdma link delete rxe1
rdma link delete rxe2
examine none "$tallyctl"
