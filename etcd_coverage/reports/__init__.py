"""Usages and comparisons -> text.

- `figures`: shares, how much is shown, texts of bounded length, links to traces
- `view`: what reports are about: every number, sum, share and order of a usage that they show
- `comparison_view`: those of a comparison
- `heat`: calls by key pattern and call shape
- `callers`: who makes the calls, and the rows outside the interface
- `by_test`: which rows e2e tests reach
- `by_caller`: the calls of each caller alone, in rows, their sums and the heat map
- `finding_details`: who made the calls of a finding, how to see its example, the row that would expect it
- `grouped_findings`: alike findings made one line
- `layout`: tables as text, as wide as the terminal
- `terminal`: a usage's tables and messages for the terminal
- `comparison`: those of a comparison and its gates
- `history`: how rows came and went, in Markdown, HTML and JSON
- `html`, `markdown`, `junit`: a report as one page, as GitHub's Markdown, as properties of JUnit XML
- `markdown_parts`: code and tables in Markdown
- `write`: reports as files, whole or not at all
"""
