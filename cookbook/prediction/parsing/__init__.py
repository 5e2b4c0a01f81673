"""The package that reads prose: tables of readers, measured tables and words become typed columns here."""
