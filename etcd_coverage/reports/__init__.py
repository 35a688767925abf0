"""Usages and comparisons -> text.

- `terminal`: tables and messages for the terminal
- `html`: one HTML page, Markdown, properties for JUnit XML
"""
