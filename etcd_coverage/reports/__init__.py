"""Usages and comparisons -> text.

- `figures`: how much is shown, texts of bounded length, links to traces
- `grouped_findings`: alike findings made one line
- `terminal`: tables and messages for the terminal
- `html`: one HTML page, Markdown, properties for JUnit XML
"""
