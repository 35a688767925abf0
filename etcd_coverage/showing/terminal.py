"""Trees for a terminal, with rich."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from rich.tree import Tree as RichTree

from etcd_coverage.showing.plain import DEEPEST, details, heading, left_out

if TYPE_CHECKING:
    from rich.console import RenderableType

    from etcd_coverage.showing.tree import Branch, Tree


def rendered(tree: Tree) -> list[RenderableType]:
    """Return what rich prints of the tree: a tree for each root. Nothing in it is read as markup."""
    trees: list[RenderableType] = []
    path: list[RichTree] = []
    for branch in tree.branches:
        label = Text(heading(branch), style=_style(branch))
        for detail in details(branch):
            label.append(f"\n{detail}", style="not bold dim")
        # Beyond, nothing would be left of the width of a terminal.
        del path[min(branch.depth, DEEPEST) :]
        if not path:
            root = RichTree(label)
            path.append(root)
            trees.append(root)
        else:
            path.append(path[-1].add(label))
    if tree.left_out:
        trees.append(Text(left_out(tree)))
    return trees


def _style(branch: Branch) -> str:
    if branch.failed:
        return "bold red"
    return "bold green" if branch.call or branch.wanted else ""
