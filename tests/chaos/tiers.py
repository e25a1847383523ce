"""The runs of each tier: arguments of run.py."""

_KILLS = "--etcd --ranks 4 --every 5 --hold 1.5"
RUNS = {
    "fast": ["--seed 1 --count 2 --every 4 --quiet 1"],
    "default": [
        "--seed 1 --count 2 --every 3.5 --hold 1 --quiet 1",
        "--seed 2 --count 2 --every 5 --hold 1 --quiet 1 --etcd --targets nodes,coordinator",
        "--seed 35 --count 4 --every 2.5 --hold 1 --quiet 1 --network --faults stop,partition,one-way,unplug",
    ],
    "soak": [
        f"--seed 1 --count 300 {_KILLS}",
        f"--seed 2 --count 50 {_KILLS} --targets nodes,coordinator,etcd --faults kill,stop",
        "--seed 3 --count 100 --every 5 --network --faults kill,stop,partition,one-way,unplug",
        "--seed 4 --count 50 --every 5 --network --etcd --ranks 4 --faults kill,partition,unplug "
        "--targets nodes,coordinator",
        "--seed 5 --count 30 --every 5 --targets ranks,coordinator --mix out,preserve,small,overwrite",
    ],
}
