"""Topics: one folder a question that readers decide, each with its model, its charts and its panel."""
