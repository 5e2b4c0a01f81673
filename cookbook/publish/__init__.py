"""Publishing of solved notebooks: executed copies, student copies, a static site, links."""
