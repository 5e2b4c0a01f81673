"""Purchase: where to run a job, and which stack to buy for an application."""
