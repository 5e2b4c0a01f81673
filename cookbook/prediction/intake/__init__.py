"""The room that reads prose: tables of readers, measured tables and words become typed columns here."""

from cookbook.prediction.intake.reading import Intake, read_scenarios

__all__ = ["Intake", "read_scenarios"]
