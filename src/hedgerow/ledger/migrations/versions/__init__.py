"""One module for each change of the schema. What is released is never edited."""
