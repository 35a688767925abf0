"""Usages and comparisons -> text.

- `figures`: how much is shown, texts of bounded length, links to traces
- `finding_details`: who made the calls of a finding, how to see its example, the row that would expect it
- `grouped_findings`: alike findings made one line
- `terminal`: a usage's tables and messages for the terminal
- `comparison`: those of a comparison and its gates
- `view`: what reports are about, and the values that several of them show
- `html`, `markdown`, `junit`: a report as one page, as GitHub's Markdown, as properties of JUnit XML
- `write`: reports as files, whole or not at all
"""
