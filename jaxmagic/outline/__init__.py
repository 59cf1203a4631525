"""A report as headings, paragraphs, code and tables: the one form that `text` and `html` are made from."""
