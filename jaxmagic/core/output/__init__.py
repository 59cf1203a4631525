"""What the cell printed and gave, and where in the source."""
