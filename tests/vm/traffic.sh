#!/bin/sh
# usage: traffic.sh bridge|netem
# In a guest with three machines: sends RDMA from one to another and says, a line each, what came of it.
set -u

show() { printf '%s=%s\n' "$1" "$2"; }

yes_or_no() { if "$@"; then echo yes; else echo no; fi; }

# Runs a program as the server on one machine, and as its client on another; their control connection goes over lo.
between() { # machine, machine, at most how many seconds, program with its arguments
  here=$1 there=$2 seconds=$3
  shift 3
  port=$((18500 + 10 * here + there))
  "$@" -d "rxe$here" -p $port >/dev/null 2>&1 &
  server=$!
  while kill -0 $server && ! ss -Hltn "sport = :$port" | grep -q .; do sleep 0.1; done
  timeout "$seconds" "$@" -d "rxe$there" -p $port 127.0.0.1 >/dev/null 2>&1
  ended=$?
  kill $server 2>/dev/null
  wait $server 2>/dev/null
  return $ended
}

pingpong() { # machine, machine, at most how many seconds
  between "$@" ibv_rc_pingpong -g 1 -n 100
}

received() { cat "/sys/class/infiniband/rxe$1/ports/1/hw_counters/rcvd_pkts"; }

receives() { # machine, within how many seconds
  before=$(received "$1")
  for _ in $(seq $(($2 * 10))); do
    if [ "$(received "$1")" -gt "$before" ]; then return 0; fi
    sleep 0.1
  done
  return 1
}

# What was under way still arrives, late where the host is busy.
falls_silent() { # machine
  for _ in $(seq 10); do
    receives "$1" 2 || return 0
  done
  return 1
}

pull_cable_of_2() {
  between 1 2 1000 ibv_rc_pingpong -g 1 -n 100000000 &
  show sending "$(yes_or_no receives 2 30)"
  ip link set p2 down
  show unplugged "$(yes_or_no falls_silent 2)"
  show others "$(yes_or_no pingpong 1 3 60)"
  ip link set p2 up
  show plugged_again "$(yes_or_no receives 2 30)"
}

bridge() {
  ibv_devinfo >/tmp/devices
  show active "$(grep -c PORT_ACTIVE /tmp/devices)"
  show mtu_4096 "$(grep -c 'active_mtu:.*4096' /tmp/devices)"
  show pingpong "$(yes_or_no pingpong 1 2 60)"
  show write "$(yes_or_no between 2 3 60 ib_write_bw -x 1 -s 65536 -n 100 -F)"
  show read "$(yes_or_no between 3 1 60 ib_read_bw -x 1 -s 65536 -n 100 -F)"
  pull_cable_of_2
}

netem() {
  show pingpong "$(yes_or_no pingpong 1 2 60)"
  tc qdisc add dev v2 root netem loss 5%
  show some_loss "$(yes_or_no pingpong 1 2 60)"
  show dropped "$(yes_or_no [ "$(tc -s qdisc show dev v2 | sed -n 's/.*dropped \([0-9]*\),.*/\1/p')" -gt 0 ])"
  ip netns exec switch tc qdisc add dev p3 root netem loss 100%
  show all_lost "$(yes_or_no pingpong 1 3 3)"
}

"$1"
