"""A Ray cluster of two nodes on this machine, with one CPU each.

    python scripts/ray_on_one_machine.py

prints the address of the cluster (``eqrm sweep PLAN --engine ray --engine-set address=...``). The
line ``kill`` on standard input kills the second node and everything that runs there; the end of the
input ends the cluster.
"""

from __future__ import annotations

import os
import sys

# Where no bytecode may be written, a node does not start in time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def main() -> None:
    """Start the cluster, and obey."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = cluster.add_node(num_cpus=1)
    print(f"address={cluster.address}", flush=True)
    for line in sys.stdin:
        if line.strip() == "kill":
            cluster.remove_node(second, allow_graceful=False)
            print("killed", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
