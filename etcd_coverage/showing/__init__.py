"""Dump -> what somebody wants to look at: the calls that match, the tree of one trace.

This room promises: `calls.matching` and `tree.tree_of` return values whose texts may all be printed; `plain` and
`terminal` lay them out. Nothing here prints.

- `calls`: the etcd calls of a dump that match a row or an origin, each with what it was made for
- `tree`: the spans of a trace, each below its parent
- `plain`: either as plain text
- `terminal`: the tree for a terminal
"""
