"""From solved notebooks to everything a reader is handed: executed copies, student copies, a static site, links."""
