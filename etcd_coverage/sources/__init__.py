"""Where dumps come from: the work behind the commands that make one.

What the room promises: a dump appears under its name only when it is whole, an earlier one stays until then; what a
collector started is ended, and what it made is removed, however it ends, or it names what is left and how to remove it.

The collectors (`python -m etcd_coverage.collect`), from the bottom up: `collect_settings` reads the environment once,
`collect_processes` starts and ends child processes, `collect_run` runs steps and undoes them, `collect_preflight`,
`collect_docker`, `collect_network` and `collect_patches` check and use this machine, Docker and a clone of Kubernetes,
`collect_jaeger` starts Jaeger and downloads from it, and `collect_kind`, `collect_local` and `collect_robustness` are
lists of steps.
"""
