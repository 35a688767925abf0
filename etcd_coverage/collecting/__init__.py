"""The work behind the collectors: a test environment -> its traces in a dump.

This room promises: a dump appears under its name only when it is whole, an earlier one stays until then; what a
collector started is ended and what it made is removed, however it ends, or it names what is left and how to remove it.

- `settings`: the environment, read once -> checked values
- `processes`: child processes, and the signals that end a run
- `commands`: commands, run and logged, or printed
- `run`: steps, and what undoes them
- `preflight`: what a collector needs of this machine
- `docker`: Docker's containers, networks and images
- `network`: the network of the kind cluster's nodes
- `patches`: a clone of Kubernetes, patched for a run
- `jaeger`: Jaeger, started, watched, downloaded from
- `receiver`: this project's own receiver in place of Jaeger
- `minors`: which minors of Kubernetes can be built
- `etcd`: etcd of a clone, reachable from a cluster's nodes
- `cluster`: the kind cluster
- `control_plane`: the servers of a cluster on loopback
- `local_files`: the configuration files of these servers
- `kind`, `local`, `robustness`: the collectors, each a list of steps
"""
