"""Usage x usage: what is covered, missing or new, and what is demanded of that.

- `compare`: reference usage x subject usage -> covered, missing, new
- `known_gaps`: rows that a subject is known to lack
- `unseen`: reference x usages -> what was never seen
- `gates`: comparison x what is demanded of it -> what fails
- `advise`: what to do where the change that fails a gate is wanted
- `saved`: usages as files: recognised, loaded, brought up to date
"""
