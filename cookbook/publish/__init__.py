"""Publishing of solved notebooks: executed copies, student copies, slides, links."""
