"""Kinds of prediction: lists of parts, each a formula of `formulas`.

A kind is a module. `engine` asks it for `resolve` (a scenario as rows of numbers: names looked up, refusals with their
reason), `CONSTANTS` (what is fitted), `TERMS` (what an ablation may switch off), `parts` (exposed seconds by term),
`step_seconds` (how parts add up), `outcome` (what is stated: seconds, or a rate), `tokens`, and `runs` (what makes two
runs alike); where it knows device memory also for `memory_parts` and `MEMORY_CONSTANTS`; and where its constants and
intervals are no tables by device and software, for `evidence` (constants, tier, remark) and `ends` (of the intervals).
"""
