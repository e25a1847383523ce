#!/bin/sh
# The guest's first process, second part: sets up the machines, runs the command, and tells the host how it ended.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
. /run/tally-vm/settings
# Ports of virtio-serial, which guest.py reads; their device has a number of its own, and appears when it likes.
port() { echo /dev/vport*p"$1"; }
until [ -e "$(port 1)" ] && [ -e "$(port 2)" ]; do sleep 0.1; done
control=$(port 1) output=$(port 2)
exec 3>"$control"

hostname tally-vm
ip link set lo up
if ! sh "$directory/tests/vm/machines.sh" "$layout" "$machines"; then
  echo 'vm: the simulated machines could not be set up'
  echo b >/proc/sysrq-trigger
fi

# Through a pipe, because a port can be opened only once, which /dev/stdout would do again.
mkfifo /run/tally-vm/output
cat /run/tally-vm/output >"$output" 3>&- &
echo started >&3
setsid --wait sh /run/tally-vm/command </dev/null >/run/tally-vm/output 2>&1 3>&-
status=$?
# What the command has left running would keep the pipe open. The pipe's reader is in this session, hence spared.
killall5 -9
wait
echo "ended $status" >&3
sleep 60 # the host switches off
