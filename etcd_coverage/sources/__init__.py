"""The work behind the commands: where traces come from."""
