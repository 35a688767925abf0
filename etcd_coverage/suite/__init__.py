"""The judging test suite, and the only room that knows pytest.

This room promises: each dump is judged by tests that fail once, with everything that nobody expected, and no run that
asked for a verdict ends green without one.

- `options`: the options; `demands`: what those given ask for; `written`: the files that they want written
- `entry_point`: what an installed package changes in other projects: nothing, unless asked
- `command`: the command etcd-coverage; `paths`: the plugin of its runs
- `inputs`: paths -> what there is to judge
- `run`: one run: what is judged, compared and saved
- `verdict`: what the tests demand of a dump
- `ledger`: what the tests judged, and which verdict is lacking
- `summary`: tables, comparisons and verdicts in the end
- `plugin`: the pytest hooks and fixtures; `workers`: those of pytest-xdist
- `test_interface_use`, `test_coverage`: the tests
"""
