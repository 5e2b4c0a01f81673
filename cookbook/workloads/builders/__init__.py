"""Builders: functions that write the operations of a family of networks."""
