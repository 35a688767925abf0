"""The judging test suite, and the only room that knows pytest.

This room promises: each dump is judged by tests that fail once, with everything that nobody expected, and no run that
asked for a verdict ends green without one.

- `options`: the options, and the files that they want written
- `run`: one run: what is judged, compared and saved
- `verdict`: what the tests demand of a dump
- `plugin`: the pytest hooks and fixtures
- `test_interface_use`, `test_coverage`: the tests
"""
