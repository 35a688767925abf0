"""Usage x usage: what is covered, missing or new, and what is demanded of that.

- `compare`: reference usage x subject usage -> covered, missing, new
- `known_gaps`: rows that a subject is known to lack
- `unseen`: reference x usages -> what was never seen
- `gates`: comparison x what is demanded of it -> what fails
- `origin_gates`: calls outside the interface, callers of a row that are new
- `advise`: what to do where the change that fails a gate is wanted
- `usage_file`: the file format of usages, and how a file is read
- `merge`: usages of several runs -> one
- `saved`: usages as files: found, loaded once, brought up to date
"""
