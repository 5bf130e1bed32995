#!/bin/sh
# A SLURM cluster of two nodes on this machine, from Debian's packages (scripts/install_slurm.sh).
#
#   scripts/slurm_on_one_machine.sh start FOLDER    # as root; prints: export SLURM_CONF=...
#   scripts/slurm_on_one_machine.sh stop FOLDER
#
# The nodes n1 and n2 have one core each. Everything is in FOLDER: configuration, state, logs. A
# cluster of its own ports and key: one that the machine belongs to is left alone.
set -eu
PATH=$PATH:/usr/sbin:/sbin

say() { echo "slurm_on_one_machine: $*" >&2; }
fail() { say "$*"; exit 1; }

[ $# = 2 ] || fail "usage: $0 start|stop FOLDER"
action=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
conf=$folder/slurm.conf

stop() {
    [ ! -e "$conf" ] || SLURM_CONF="$conf" timeout 10 scancel --user=root 2>/dev/null || true
    munge=$(cat "$folder/munge" 2>/dev/null || true)
    pids=
    for file in "$folder"/slurmd-n*.pid "$folder/slurmctld.pid" "$munge/pid"; do
        [ ! -s "$file" ] || pids="$pids $(cat "$file")"
    done
    for pid in $pids; do
        kill "$pid" 2>/dev/null || true
    done
    tries=100
    for pid in $pids; do
        while [ "$tries" -gt 0 ] && kill -0 "$pid" 2>/dev/null; do
            tries=$((tries - 1))
            sleep 0.1
        done
    done
    [ -z "$munge" ] || rm -rf "$munge"
}

# Three ports that nobody uses now.
free_ports() {
    python3 - <<'END'
import socket
sockets = [socket.socket() for _ in range(3)]
for each in sockets:
    each.bind(("127.0.0.1", 0))
print(*(each.getsockname()[1] for each in sockets))
END
}

# munge insists on folders of its own that nobody else can write; its socket is for every user.
start_munge() {
    munge=$(mktemp -d /tmp/munge-XXXXXX)
    echo "$munge" >"$folder/munge"
    dd if=/dev/urandom of="$munge/key" bs=1024 count=1 2>/dev/null
    chown -R munge: "$munge"
    chmod 400 "$munge/key"
    chmod 755 "$munge"
    runuser -u munge -- munged --key-file="$munge/key" --socket="$munge/socket" \
        --pid-file="$munge/pid" --seed-file="$munge/seed" --log-file="$munge/log"
}

write_configuration() {
    host=$(hostname)
    # shellcheck disable=SC2046
    set -- $(free_ports)
    memory=$(awk '/MemTotal/ { print int($2 / 1024 / 2) }' /proc/meminfo)
    mkdir -p "$folder/spool" "$folder/state"
    cat >"$conf" <<END
ClusterName=one-machine
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# How long a requeued job waits, in seconds; the default is 120.
AuthInfo=socket=$munge/socket,cred_expire=10
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
JobRequeue=1
KillWait=30
SchedulerParameters=batch_sched_delay=0,sched_interval=5,sched_min_interval=0
SlurmctldPidFile=$folder/slurmctld.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmdLogFile=$folder/slurmd-%n.log
SlurmdSpoolDir=$folder/spool/%n
StateSaveLocation=$folder/state
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$2 CPUs=1 RealMemory=$memory
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$3 CPUs=1 RealMemory=$memory
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
END
}

wait_for_nodes() {
    tries=150
    while [ "$tries" -gt 0 ]; do
        if [ "$(sinfo --noheader --Node --format=%T 2>/dev/null | grep -c '^idle$')" = 2 ]; then
            return
        fi
        tries=$((tries - 1))
        sleep 0.2
    done
    tail -n 5 "$folder"/*.log >&2 || true
    fail "the nodes did not become idle within 30 seconds: the logs are in $folder"
}

if [ "$action" = stop ]; then
    stop
    exit 0
fi
[ "$action" = start ] || fail "usage: $0 start|stop FOLDER"
[ "$(id -u)" = 0 ] || fail "root is needed to start slurmd"
for name in munged slurmctld slurmd sbatch; do
    command -v "$name" >/dev/null 2>&1 || fail "$name was not found: sh scripts/install_slurm.sh"
done
start_munge
write_configuration
export SLURM_CONF="$conf"
slurmctld -f "$conf"
slurmd -f "$conf" -N n1
slurmd -f "$conf" -N n2
wait_for_nodes
echo "export SLURM_CONF=$conf"
