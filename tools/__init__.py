"""Programs of the project's own development, and the modules of the servers that its tests drive."""
