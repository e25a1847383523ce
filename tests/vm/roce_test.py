#!/usr/bin/env python3
"""A node without an RDMA device, in one guest: its Ethernet port is one end of a cable that DPDK's af_packet drives, and
the workers have soft-RoCE devices at other ports of the switch. They use transport verbs, as with any node. First all
collectives (in tier soak also the gradients of ResNet-50), then a tree, then the end-to-end suite and the matrix (all of
them in tier soak) with a node in the test's process, then faults.

usage: roce_test.py TALLYD TALLYCTL TALLY_PERF FAULT_RANK E2E_PORT_TEST

$TALLY_TEST_TIER: fast, default, soak
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIMEOUTS = {"soak": 3000}
# The most bytes of a collective, and the cases of the end-to-end suite and the matrix.
SIZES = {"soak": "16M"}
CASES = {"soak": "*"}
MODELS = {"soak": "resnet50"}
MEMORY = {"soak": "8192"}
SCRIPT = """set -eu
tallyd=$1 tallyctl=$2 perf=$3 rank=$4 e2e=$5 sizes=$6 cases=$7 models=$8
sh tests/vm/node_port.sh 4
cat >/run/roce.toml <<END
[network]
roce = "net_af_packet0,iface=n0"
roce_address = "10.9.0.100/24"
fabric = "off"
END
"$tallyd" --config /run/roce.toml --listen unix:/run/node.sock --listen-tcp tcp:127.0.0.1:7733 --insecure --shards 2 &
node=$!
for _ in $(seq 100); do ss -Hltn "sport = :7733" | grep -q . && break; kill -0 $node; sleep 0.1; done
export TALLY_INSECURE=1 TALLY_ADDRESS=tcp:127.0.0.1:7733
for kind in allreduce reduce broadcast reducescatter allgather barrier; do
  "$perf" $kind --spawn 2 --transport verbs:rxe1 --min-bytes 4 --max-bytes "$sizes" --factor 16 --iters 3 --check
done
"$perf" allreduce --spawn 4 --transport verbs:rxe2 --min-bytes 1M --max-bytes 1M --iters 2 --check
"$perf" allreduce --spawn 3 --transport verbs:rxe1 --min-bytes 1000 --max-bytes 100000 --factor 10 --iters 3 --check \\
  --type bf16
for model in $models; do
  "$perf" allreduce --spawn 4 --transport verbs:rxe2 --model "$model" --warmup 1 --iters 2 --check
done
"$tallyctl" --address unix:/run/node.sock stats --json >/run/stats.json
cat /run/stats.json
grep -q '"received": *[1-9]' /run/stats.json
grep -q '"wrong_shard": *[1-9]' /run/stats.json  # the kernel does not know which queue is right
if grep -Eq '"(wrong_icrc|no_buffer|wrong_shard_dropped)": *[1-9]' /run/stats.json; then
  echo 'packets went wrong'
  exit 1
fi
kill $node
wait $node
unset TALLY_ADDRESS TALLY_INSECURE
python3 tests/vm/roce_parent.py "$tallyd" "$tallyctl" "$perf"
for mtu in 1024 4096; do
  env TALLY_TRANSPORT=verbs:rxe2 TALLY_TEST_NODE=roce TALLY_TEST_PORT="net_af_packet0,iface=n0" \\
    TALLY_TEST_MTU=$mtu TALLY_TEST_ACK_TIMEOUT=16 TALLYCTL="$tallyctl" "$e2e" --gtest_brief=1 --gtest_filter="$cases"
done
exec python3 tests/vm/roce_faults.py "$tallyd" "$rank" "$tallyctl"
"""


def main() -> int:
    programs = [str(Path(program).resolve()) for program in sys.argv[1:]]  # the guest begins elsewhere
    tier = os.environ.get("TALLY_TEST_TIER", "")
    guest = [sys.executable, str(HERE / "guest.py"), "--machines", "4", "--netem", "--memory", MEMORY.get(tier, "2048"),
             "--timeout", str(TIMEOUTS.get(tier, 600))]
    return subprocess.run([*guest, "--", "sh", "-c", SCRIPT, "sh", *programs, SIZES.get(tier, "1M"),
                           CASES.get(tier, "Collectives.EveryKind*:Collectives.AllReduce*"), MODELS.get(tier, "")],
                          check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
