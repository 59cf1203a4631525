"""Files, cells, syntax and spans: everything about the text of the user's code."""
