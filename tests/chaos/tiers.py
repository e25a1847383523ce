"""The runs of each tier: arguments of run.py."""

_FINISH = "--on-rank-loss finish --etcd"
_KILLS = "--etcd --ranks 4 --every 5 --hold 1.5"
RUNS = {
    "fast": ["--seed 1 --count 2 --every 4 --quiet 1"],
    "default": [
        "--seed 1 --count 2 --every 3.5 --hold 1 --quiet 1",
        "--seed 2 --count 2 --every 5 --hold 1 --quiet 1 --etcd --targets nodes,coordinator",
        "--seed 35 --count 4 --every 2.5 --hold 1 --quiet 1 --network --faults stop,partition,one-way,unplug",
        "--calm --for 10 --quiet 1 --busy 7 --etcd",
        f"--seed 13 --count 2 --every 6 --hold 0.5 --quiet 1 --load training --faults kill --targets ranks,nodes {_FINISH}",
        f"--seed 71 --count 3 --every 5 --hold 1 --quiet 1 --ranks 4 --deadline 2 --faults kill,stop "
        f"--targets ranks,coordinator {_FINISH}",
    ],
    "soak": [
        f"--seed 1 --count 300 {_KILLS}",
        f"--seed 2 --count 50 {_KILLS} --targets nodes,coordinator,etcd --faults kill,stop",
        "--seed 3 --count 100 --every 5 --network --faults kill,stop,partition,one-way,unplug",
        "--seed 4 --count 50 --every 5 --network --etcd --ranks 4 --faults kill,partition,unplug "
        "--targets nodes,coordinator",
        "--seed 5 --count 30 --every 5 --targets ranks,coordinator --mix out,preserve,small,overwrite",
        f"--seed 6 --count 100 --every 6 --ranks 4 --deadline 4 --faults kill,stop --targets ranks,nodes,coordinator {_FINISH}",
        f"--seed 7 --count 50 --every 8 --ranks 4 --deadline 8 --faults kill,stop,partition,one-way,unplug "
        f"--targets ranks,nodes,coordinator --network {_FINISH}",
        "--calm --for 3600 --busy 7 --etcd --ranks 4",
        f"--seed 9 --count 300 --load torch {_KILLS}",
        *(f"--seed {seed} --count 50 --every 7 --hold 5 --network --nodes {nodes} --trees {trees} --faults {fault}"
          for seed, (trees, nodes) in enumerate((("stars", 3), ("two-level", 5)), 10) for fault in ("stop", "one-way")),
        # 8 ranks of a training, a fault every 29 s for 30 minutes.
        f"--seed 12 --for 1800 --every 29 --quiet 29 --hold 1.5 --ranks 8 --deadline 2 --slow-ms 300 --load training "
        f"--faults kill,stop,partition --targets ranks,nodes --network --least-throughput 0.9 {_FINISH}",
        # 32 ranks, a fault every 29 s for 30 minutes.
        f"--seed 8 --for 1800 --every 29 --quiet 29 --hold 1.5 --ranks 32 --elements 16384 --deadline 2 --slow-ms 300 "
        f"--faults kill,stop,partition --targets ranks,nodes --network --least-throughput 0.97 {_FINISH}",
    ],
}
